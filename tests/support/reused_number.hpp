// SPDX-License-Identifier: Apache-2.0
// Gives the inode number of a removed inode to a new directory, which otherwise happens only after
// many creations.
#pragma once

#include <string>

#include "fs/volume/volume_implementation.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {

/// Makes directories in the root until one has the inode number `number`, and puts a file "kept" in
/// it. A handle of inode 0 if the number is not free. Requires: the engine works on the host's
/// Store.
inline Handle make_directory_of_number(Volume& volume, VolumeImplementation& inside, u64 number) {
    // Each worker goes on searching at the word in which it took a number last.
    for (core::WorkerHint& hint : inside.store().state->hints)
        relaxed_store(hint.inode, number);
    for (u32 i = 0; i < 64; ++i) {
        const Handle made = make_directory(volume, volume.root(), "new" + std::to_string(i));
        if (made.inode != number) continue;
        make_file(volume, made, "kept");
        return made;
    }
    return {};
}

}  // namespace warren
