// SPDX-License-Identifier: Apache-2.0
// Memory of empty frames. The host's Store has an address for each block of the volume, and touched
// pages take memory until they are given back.
#pragma once

#include "fs/core/store.hpp"

namespace warren {

/// Gives the memory of free frames back to the system: their blocks are not resident any more and
/// read as zeros, as those of a frame that never held anything. Beside any operations. Requires:
/// the identity map, in memory of the host.
void give_back_free_frames(const core::Store& store);

}  // namespace warren
