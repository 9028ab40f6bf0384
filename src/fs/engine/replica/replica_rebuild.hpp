// SPDX-License-Identifier: Apache-2.0
// Packs a directory in the image of a replica, window by window. Each window is a run
// (image_runs.hpp).
#pragma once

#include <functional>

#include "fs/engine/replica/image_rebuild.hpp"
#include "fs/engine/replica/image_runs.hpp"

namespace warren {

/// As BulkCommands::rebuild(). Errc::not_supported, or an error that the CPU may not have: it must
/// pack what is left. Requires: no other thread uses `rebuild`.
Errc rebuild_in_image(ImageRuns& runs, ImageRebuild& rebuild, const core::Credentials& caller,
                      Handle directory, u64 blocks, const std::function<Errc()>& commit);

}  // namespace warren
