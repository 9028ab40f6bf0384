// SPDX-License-Identifier: Apache-2.0
// Refuses a commit if an operation has exceeded its journal credits (core/journal_credits.hpp).
#pragma once

#include "fs/ops/commit_snapshot.hpp"

namespace warren {

/// Returns Errc::io and writes to the log if an operation that is part of the snapshot has dirtied
/// more blocks than its credits. The snapshot must not become durable then.
Errc refuse_overrun(const ops::CutCounters& counters);

}  // namespace warren
