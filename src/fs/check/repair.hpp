// SPDX-License-Identifier: Apache-2.0
// Repairs the problems that a check has found, as far as the remaining metadata determine how.
//
// Invariant: new blocks are written to unused places and are durable before any pointer to them is
// written; old blocks are freed last. So an interrupted repair can be started again.
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
    /// `transaction` is the number of all blocks that are written. Requires: `context` is that of a
    /// finished check.
    Repair(Context& context, u64 transaction)
        : context_(context), inodes_(context.inodes), transaction_(transaction) {}

    /// Writes all repairs except the superblock; sets the counters in `superblock`.
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
    u64 generation_ = 0;                             // generation given to an inode last
    std::map<u32, std::vector<NewName>> new_names_;  // by directory
};

/// Writes one new tree: collects its blocks in memory; finish() marks them as used in the frame
/// table and then writes them. If finish() was not called, the blocks are released.
class TreeWriter final : public BlockSink {
 public:
    explicit TreeWriter(Context& context, u64 transaction)
        : context_(context), transaction_(transaction) {}
    ~TreeWriter() override;

    Result<u64> allocate() override;
    Errc put(u64 place, const format::Block& block) override;
    /// Writes the blocks and makes them durable.
    Errc finish();

 private:
    Context& context_;
    const u64 transaction_;
    std::vector<u64> places_;
    std::vector<std::unique_ptr<format::Block>> blocks_;
    bool is_finished_ = false;
};

/// The names that `directory` keeps, and those in `more`, in the order of their keys. The entries
/// point into `arena`, which receives the bytes of the names.
std::vector<PackedEntry> collect_names(Context& context, u32 directory,
                                       const std::vector<NewName>& more, std::string& arena);

/// The places of the blocks that the tree of an inode has and that the check found it to own.
std::vector<u64> tree_blocks_of(Context& context, u32 ordinal, const format::Inode& inode);

}  // namespace warren::check
