// SPDX-License-Identifier: Apache-2.0
// Checks that need all names: which inodes can be reached from the root, and the link counts and
// parents of directories.
//
// A directory has one parent, so the directories form trees and, if something is wrong, cycles. The
// path up from each directory is followed until a directory that is anchored already. Then all
// directories on the path are anchored, so each is visited once.
#include "fs/check/check_directories.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::check {

using format::Inode;

namespace {

class Anchoring {
 public:
    explicit Anchoring(Context& context) : context_(context), inodes_(context.inodes) {}

    /// Follows the path up from `ordinal` to an anchored directory, or to its end.
    void follow(u32 ordinal) {
        u32 at = ordinal;
        while (!inodes_.has(at, mark_anchored)) {
            if (inodes_.has(at, mark_on_way)) {
                cut(at);
            } else if (!inodes_.has(at, mark_placed)) {
                lose(at, "is in no directory");
            } else {
                inodes_.set(at, mark_on_way);
                way_.push_back(at);
                at = inodes_.parents[at];
            }
        }
        const bool is_orphan = inodes_.has(at, mark_orphan) || at == context_.orphans;
        for (; !way_.empty(); way_.pop_back()) {
            inodes_.clear(way_.back(), mark_on_way);
            inodes_.set(way_.back(), mark_anchored);
            if (is_orphan) inodes_.set(way_.back(), mark_orphan);
        }
    }

    void lose(u32 ordinal, const char* text) {
        context_.problem(ordinal, text);
        inodes_.set(ordinal, mark_lost);
        inodes_.set(ordinal, mark_anchored);
        context_.lost.push_back(ordinal);
    }

 private:
    /// Detaches a directory that is part of a cycle from its parent.
    void cut(u32 ordinal) {
        const u32 parent = inodes_.parents[ordinal];
        --inodes_.names[parent];
        inodes_.set(parent, mark_rebuild);
        inodes_.clear(ordinal, mark_placed);
        lose(ordinal, "lies in itself");
        inodes_.name_blocks[ordinal] = 0;
    }

    Context& context_;
    InodeMap& inodes_;
    std::vector<u32> way_;
};

void compare_directory(Context& context, u32 ordinal, const Inode& inode) {
    const InodeMap& inodes = context.inodes;
    const bool is_doomed = inodes.has(ordinal, mark_orphan) || ordinal == context.orphans;
    const u32 links = 2 + inodes.names[ordinal];
    if (!is_doomed && inode.links != links) {
        context.wrong(ordinal, "counts " + std::to_string(inode.links) + " links, it has " +
                                   std::to_string(links));
    }
    if (!inodes.has(ordinal, mark_orphan) && (inode.entries & format::entries_dying) != 0) {
        context.wrong(ordinal, "is marked as being removed");
    }
    if (context.is_special(ordinal) && inode.parent != inodes.number_of(ordinal)) {
        context.wrong(ordinal, "is not its own parent");
    }
}

}  // namespace

void find_lost(Context& context) {
    InodeMap& inodes = context.inodes;
    Anchoring anchoring(context);
    for (u32 ordinal = 0; ordinal < inodes.count(); ++ordinal) {
        if (!inodes.exists(ordinal)) continue;
        if (inodes.is_directory(ordinal)) {
            anchoring.follow(ordinal);
            continue;
        }
        const u32 names = inodes.names[ordinal];
        if (format::file_names_are_sound(names, inodes.has(ordinal, mark_orphan))) continue;
        if (names == 0) {
            anchoring.lose(ordinal, "is in no directory");
        } else {
            context.problem(ordinal, "has a name in the orphan directory too");
            inodes.set(context.orphans, mark_rebuild);
        }
    }
}

void compare_directories(Context& context) {
    InodeMap& inodes = context.inodes;
    for (u32 ordinal = 0; ordinal < inodes.count(); ++ordinal) {
        if (!inodes.exists(ordinal) || !inodes.is_directory(ordinal)) continue;
        // A repair fixes these fields of every inode that it writes.
        if (inodes.has(ordinal, mark_write)) continue;
        compare_directory(context, ordinal, context.usable_inode(ordinal));
    }
}

}  // namespace warren::check
