// SPDX-License-Identifier: Apache-2.0
// Removes a detached tree by commands, name by name: with a buffer cache, where blocks may be
// evicted and each command waits for its own blocks; on volumes too full for bulk steps; and on
// engines without bulk removal.
//
// Subdirectories are moved to the orphan directory before they are read, so that no other process
// can move them away or add to them, and the next opening frees them after a crash. Invariant: a
// directory that has lost its name stays in the orphan directory until it is freed. Directories for
// which the orphan directory has no space keep their names and are removed as by rm(1), the deepest
// first.
#pragma once

#include <string_view>
#include <vector>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

class TreeUnlinker {
 public:
    /// Counts what is removed in `removal`, which outlives this object.
    TreeUnlinker(VolumeImplementation& volume, Removal& removal);

    /// Removes the files of a directory and keeps its subdirectories.
    Errc remove_files(Handle directory);

    /// Frees the directory `root`, which is in the orphan directory and marked entries_dying, and
    /// everything below it. Requires: no other thread frees `root`.
    Errc remove(Handle root);

 private:
    /// A directory that is being emptied, leaf by leaf.
    struct Emptied {
        Handle directory;
        u64 from = 0;          // the key of the next leaf
        bool is_gone = false;  // freed already by the thread that closed it last
    };
    /// A name in a leaf that was read.
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
    u64 wave_max_;  // how many directories are emptied in parallel
    bool detaches_ = true;
    std::vector<Handle> detached_;
    std::vector<format::DirectoryLeaf> leaves_;  // of the directories of a wave
    std::vector<Named> names_;
};

}  // namespace warren
