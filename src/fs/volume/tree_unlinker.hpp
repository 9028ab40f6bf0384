// SPDX-License-Identifier: Apache-2.0
// Removes a detached tree by commands, name by name: for a meta buffer of fixed size, where blocks
// may be evicted and each command waits for its own, for volumes too full for bulk steps, and for
// engines without bulk removal.
//
// Subdirectories are moved to the orphan directory too before they are read, so no other process
// can move them away or add to them, and the next opening frees what a crash leaves. Invariant: a
// directory that has lost its name stays there until it is freed. Directories for which there is no
// room there keep their names and are removed as by rm(1), the lowest first.
#pragma once

#include <string_view>
#include <vector>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

class TreeUnlinker {
 public:
    /// Counts what is removed in `removal`, which outlives this.
    TreeUnlinker(VolumeImplementation& volume, Removal& removal);

    /// Removes the files of a directory and keeps its directories.
    Errc remove_files(Handle directory);

    /// Frees the directory `root`, which is in the orphan directory and dying, and all below it.
    Errc remove(Handle root);

 private:
    /// A directory that is being emptied, leaf after leaf.
    struct Emptied {
        Handle directory;
        u64 from = 0;          // the key of the next leaf
        bool is_gone = false;  // the thread that closed it last has freed it first
    };
    /// A name of a leaf that was read.
    struct Named {
        Emptied* in;
        u64 key;
        std::string_view name;  // in leaves_
        bool is_directory;
    };
    Errc empty(std::vector<Emptied>& wave);
    Errc read_leaves(std::vector<Emptied>& wave);
    Errc remove_names();
    Errc finish(const Named& one, const ops::Reply& reply);
    Errc take_apart(Handle parent, std::string_view name);

    VolumeImplementation& volume_;
    Removal& removal_;
    u64 wave_max_;  // directories that are emptied in parallel
    bool detaches_ = true;
    std::vector<Handle> detached_;
    std::vector<format::DirectoryLeaf> leaves_;  // of the directories of a wave
    std::vector<Named> names_;
};

}  // namespace warren
