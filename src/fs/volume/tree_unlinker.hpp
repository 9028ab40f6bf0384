// SPDX-License-Identifier: Apache-2.0
// Takes a detached tree apart by commands, name by name: for a meta buffer of fixed size, where
// blocks come and go and each command waits for its own, for volumes too full for bulk steps, and
// for engines that know no faster way.
//
// Directories come to the orphan directory as well before they are looked into, so nobody can move
// them away or add to them, and what a cut leaves is freed by the next opening. Invariant: a
// directory that has lost its name hangs there until it is freed. Those that find no room there
// keep their names and go as by rm(1), the lowest first.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

class TreeUnlinker {
 public:
    /// What goes is added to `removal`, which outlives this.
    TreeUnlinker(VolumeImplementation& volume, Removal& removal);

    /// Removes the files of a directory and leaves its directories where they are.
    Errc remove_files(Handle directory);

    /// Frees the directory `root`, which hangs on the orphan directory and takes no more names, and
    /// all below it.
    Errc remove(Handle root);

 private:
    /// A directory that is being emptied, leaf after leaf.
    struct Emptied {
        Handle directory;
        u64 from = 0;          // the key of the next leaf
        bool is_gone = false;  // whoever closed it last came to free it too, and was faster
    };
    /// A name of a leaf that was read.
    struct Named {
        Emptied* in;
        u64 key;
        std::string_view name;  // in leaves_
        bool is_directory;
    };
    /// A directory that still has its name, and how far it has been read.
    struct Level {
        Handle parent;
        std::string name;
        Handle directory;
        u64 from = 0;
    };

    Errc empty(std::vector<Emptied>& wave);
    Errc read_leaves(std::vector<Emptied>& wave);
    Errc remove_names();
    Errc finish(const Named& one, const ops::Reply& reply);
    Errc take_apart(Handle parent, std::string_view name);
    Errc go_down(std::vector<Level>& levels, Handle parent, std::string_view name);
    Errc empty_level(std::vector<Level>& levels);

    VolumeImplementation& volume_;
    Removal& removal_;
    u64 wave_max_;  // directories that are emptied side by side
    bool detaches_ = true;
    std::vector<Handle> detached_;
    std::vector<format::DirectoryLeaf> leaves_;  // of the directories of a wave
    std::vector<Named> names_;
    std::unique_ptr<format::DirectoryLeaf> below_;  // for directories that keep their names
};

}  // namespace warren
