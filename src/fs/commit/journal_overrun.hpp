// SPDX-License-Identifier: Apache-2.0
// What a commit does if an operation has exceeded its credits (core/journal_credits.hpp).
#pragma once

#include "fs/ops/commit_snapshot.hpp"

namespace warren {

/// Errc::io, and a line in the log, if an operation behind the snapshot has dirtied more blocks
/// than its credits: it must not become durable.
Errc refuse_overrun(const ops::CutCounters& counters);

}  // namespace warren
