// SPDX-License-Identifier: Apache-2.0
// Builds volumes for tests without an engine: a tree of inodes is described, and then written at
// once in terms of the format. Any damage in the volume was made by the test.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fs/check/pack_tree.hpp"
#include "fs/format/inode.hpp"
#include "fs/format/superblock.hpp"
#include "fs/format/tree.hpp"
#include "tests/support/memory_disk.hpp"

namespace warren::test {

/// A run of a file's blocks. The content of a block depends only on its block number in the file.
struct FileRun {
    u64 file_block = 0;
    u32 blocks = 0;
    bool is_unwritten = false;
};

class ImageBuilder {
 public:
    explicit ImageBuilder(u64 size_bytes = 32 * mib);

    u64 root() const { return superblock().root_inode; }
    u64 orphans() const { return superblock().orphan_directory; }

    u64 add_directory(u64 parent, const std::string& name);
    u64 add_file(u64 parent, const std::string& name, const std::string& contents);
    u64 add_runs(u64 parent, const std::string& name, u64 size_bytes,
                 const std::vector<FileRun>& runs);
    /// A file that shares the blocks of `source`, which was made of runs.
    u64 add_clone(u64 parent, const std::string& name, u64 source);
    u64 add_link(u64 parent, const std::string& name, const std::string& target);
    u64 add_node(u64 parent, const std::string& name, u32 mode, u32 device);
    /// A file without a name, in the orphan directory.
    u64 add_orphan(const std::string& contents);
    /// Adds another name for an inode.
    void add_name(u64 parent, const std::string& name, u64 inode);
    void set_attribute(u64 inode, const std::string& name, const std::string& value);

    /// Writes everything. Later changes are made to the disk.
    void finish();
    MemoryDisk& disk() { return *disk_; }

    /// Few entries for each block, so that small trees have several levels.
    check::PackLimits limits;

    const format::Superblock& superblock() const {
        return reinterpret_cast<const format::Superblock&>(superblock_);
    }

 private:
    struct Node {
        format::Inode inode{};
        std::map<std::string, u64> names;  // of a directory
        std::string contents;              // of a file or a symbolic link
        std::vector<FileRun> runs;
        std::vector<format::Extent> extents;  // of the runs, once they are written
        u64 source = 0;                       // of a clone
        bool is_shared = false;               // has a clone
        std::map<std::string, std::string> attributes;
    };
    class Sink;

    void be_the_same_always();
    u64 add_inode(u64 parent, const std::string& name, u32 mode);
    u64 hash_of(const std::string& name) const;
    u64 take_metadata();
    u64 take_data(u32 blocks);
    void write_block(u64 place, format::Block& block);
    void write_tree(u64 number, Node& node);
    void write_contents(u64 number, Node& node);
    void write_runs(u64 number, Node& node);
    void place_runs(Node& node);
    void count_references(const Node& clone);
    void write_target(u64 number, Node& node);
    void write_attributes(u64 number, Node& node);
    void write_inodes();
    void write_counts();
    void write_table();

    std::unique_ptr<MemoryDisk> disk_;
    format::Block superblock_;
    std::map<u64, Node> nodes_;
    std::vector<bool> used_;                         // by block number
    std::map<u64, format::Block> counts_;            // ReferenceBlock by block group
    std::map<u64, format::BlockPointer> counts_at_;  // by block group
    u64 next_inode_;
    u64 next_metadata_;
    u64 next_data_;
};

/// Reads and writes blocks of a volume, and computes the checksums of blocks that it writes.
class ImageEditor {
 public:
    explicit ImageEditor(Disk& disk);

    const format::Superblock& superblock() const {
        return reinterpret_cast<const format::Superblock&>(superblock_);
    }
    format::Block read(u64 place);
    void write(u64 place, const format::Block& block);  // with the checksum in its header
    void write_raw(u64 place, const format::Block& block);
    format::Inode inode(u64 number);
    void set_inode(u64 number, const format::Inode& inode);
    /// Flips one bit of the byte at `offset`.
    void flip(u64 offset, u8 mask = 1);

 private:
    Disk& disk_;
    format::Block superblock_;
};

/// Fills `image` with one or more objects of every kind and finishes it: trees with several levels,
/// `files` files in the largest directory, `runs` extents of a sparse file.
void build_one_of_everything(ImageBuilder& image, int files, u32 runs);

}  // namespace warren::test
