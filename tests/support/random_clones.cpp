// SPDX-License-Identifier: Apache-2.0
// The random driver's operations that clone files and trees.
#include <algorithm>

#include "tests/support/random_operations.hpp"

namespace warren {

/// The number of names in a tree.
u64 RandomOperations::entries_below(u64 number) const {
    u64 count = 0;
    for (const auto& [name, below] : model_.find(model(number))->entries)
        count += 1 + entries_below(below);
    return count;
}

/// Records the inodes of a new directory and of those below it.
void RandomOperations::note_copies(u64 directory) {
    for (const auto& [name, number] : model_.find(model(directory))->entries) {
        const auto found = volume_->lookup({.check = false}, real(directory), name);
        if (!found) return fail("does not show " + printable_name(name) + " in a clone");
        if (!handles_.contains(number)) note_new(number, found->handle);
        if (real(number) != found->handle) return fail("shows another inode in a clone");
        note_copies(number);
    }
}

void RandomOperations::do_clone() {
    constexpr u64 entries_max = 300;  // trees near the root are large
    const Caller& caller = pick_caller();
    const u64 source = pick_inode();
    const u64 directory = pick_directory();
    const std::string name = chance(4) ? pick_entry(directory) : pick_name();
    const ModelInode* from = model_.find(model(source));
    const ModelInode* where = model_.find(model(directory));
    if (from != nullptr && entries_below(source) > entries_max) return;
    // It is unspecified which of several errors is reported.
    if (from != nullptr && model_.why_not_copied(caller, model(source).inode).size() > 1) return;
    // It is unspecified how far up the volume searches from a removed directory.
    if (where != nullptr && where->links == 0) return;
    begin("clone " + name_of(source) + " to " + name_of(directory) + "/" + printable_name(name) +
          " by " + std::to_string(caller.user));
    ClonedTree cloned;
    const Errc found = volume_->clone(caller, real(source), real(directory), name, cloned);
    end();
    ClonedTree wanted;
    expect_code(found, model_.clone(caller, model(source), model(directory), name, wanted));
    if (failed_ || found != Errc::ok) return;
    note(cloned.files);
    if (cloned.files != wanted.files || cloned.directories != wanted.directories) {
        return fail("clones " + std::to_string(cloned.files) + " files and " +
                    std::to_string(cloned.directories) + " directories, not " +
                    std::to_string(wanted.files) + " and " + std::to_string(wanted.directories));
    }
    drop_dead_opens();
    const auto made = volume_->lookup({.check = false}, real(directory), name);
    const auto copy = model_.lookup({.check = false}, model(directory), name);
    expect_inode(made, copy, Hold::no, true);
    if (!failed_ && is_mode_of(copy->mode, directory_mode)) note_copies(copy->handle.inode);
}

}  // namespace warren
