// SPDX-License-Identifier: Apache-2.0
// Repairs what a check has found, as far as it follows from what is left.
//
// Invariant: new blocks are written to unused places, and are durable before any pointer to them;
// old blocks are freed last. So an interrupted repair can be started again.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fs/check/check_context.hpp"
#include "fs/check/pack_tree.hpp"

namespace warren::check {

/// A name that a repair adds to a directory.
struct NewName {
    std::string name;
    u32 target;
};

class Repair {
 public:
    /// Requires: `context` has been checked. All that is written has the number `transaction`.
    Repair(Context& context, u64 transaction)
        : context_(context), inodes_(context.inodes), transaction_(transaction) {}

    /// Writes everything but the superblock, whose counters it sets in `superblock`.
    Errc run(format::Superblock& superblock);

 private:
    void place_lost();
    void choose_lost_and_found();
    u32 make_directory();
    Errc rebuild_directories();
    Errc rebuild_directory(u32 ordinal);
    Errc rebuild_files();
    Errc rebuild_file(u32 ordinal, const InodePlan& plan);
    Errc replace_tree(u32 ordinal, const format::Inode& inode, const std::vector<u64>& old_blocks);
    Errc write_inodes();
    Errc write_bitmaps();
    format::Inode fixed_inode(u32 ordinal);
    u32 next_generation();
    void fix_damaged(u32 ordinal, format::Inode& inode);
    void fix_directory(u32 ordinal, format::Inode& inode);

    Context& context_;
    InodeMap& inodes_;
    const u64 transaction_;
    u32 lost_and_found_ = nobody;
    u64 generation_ = 0;                             // of the inode made last
    std::map<u32, std::vector<NewName>> new_names_;  // by directory
};

/// Writes one new tree: collects its blocks in memory, then writes them in a safe order.
class TreeWriter final : public BlockSink {
 public:
    explicit TreeWriter(Context& context, u64 transaction)
        : context_(context), transaction_(transaction) {}
    ~TreeWriter() override;

    Result<u64> allocate() override;
    Errc put(u64 place, const format::Block& block) override;
    /// Makes the blocks durable.
    Errc finish();

 private:
    Context& context_;
    const u64 transaction_;
    std::vector<u64> places_;
    std::vector<std::unique_ptr<format::Block>> blocks_;
    bool is_finished_ = false;
};

/// All names that `directory` keeps, with `more` added, in the order of their keys. `arena` holds
/// the bytes of the names.
std::vector<PackedEntry> collect_names(Context& context, u32 directory,
                                       const std::vector<NewName>& more, std::string& arena);

/// Places of the blocks that the tree of an inode has now and that belong to it.
std::vector<u64> tree_blocks_of(Context& context, u32 ordinal, const format::Inode& inode);

}  // namespace warren::check
