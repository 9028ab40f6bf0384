// SPDX-License-Identifier: Apache-2.0
// Gives memory of empty frames back. A fully resident Store has an address for each block of the
// volume, and pages that were touched take memory until they are given back.
#pragma once

#include "fs/core/store.hpp"

namespace warren {

/// Gives the memory of free frames back to the operating system. Their blocks are no longer
/// resident and read as zeros, like those of a frame that was never used. May run concurrently with
/// operations. Requires: a fully resident store in host memory.
void give_back_free_frames(const core::Store& store);

}  // namespace warren
