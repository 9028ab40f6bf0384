// SPDX-License-Identifier: Apache-2.0
// Metadata blocks come from the block group after the inodes, data blocks from the last group
// downwards.
#include "tests/support/image_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "fs/admin/make_volume.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/core/name_hash.hpp"
#include "fs/format/check_block.hpp"
#include "fs/format/directory.hpp"
#include "fs/format/frame.hpp"

namespace warren::test {

using format::Block;
using format::block_size;
using format::BlockKind;
using format::BlockPointer;
using format::blocks_per_frame;
using format::Extent;
using format::FrameKind;
using format::Inode;

namespace {

constexpr u64 transaction = 7;
constexpr i64 birth = 1'700'000'000'123'456'789;

void fill(Disk& disk, u64 place, u64 file_block) {
    Block block;
    for (u64 i = 0; i < std::size(block.words); ++i)
        block.words[i] = file_block << 16 | i;
    ASSERT_EQ(disk.write(place, std::as_bytes(std::span(&block, 1))), Errc::ok);
}

}  // namespace

class ImageBuilder::Sink final : public check::BlockSink {
 public:
    explicit Sink(ImageBuilder& image) : image_(image) {}
    Result<u64> allocate() override { return image_.take_metadata(); }
    Errc put(u64 place, const Block& block) override {
        Block copy = block;
        image_.write_block(place, copy);
        return Errc::ok;
    }

 private:
    ImageBuilder& image_;
};

ImageBuilder::ImageBuilder(u64 size_bytes) : disk_(std::make_unique<MemoryDisk>(size_bytes)) {
    EXPECT_EQ(make_volume_on(*disk_, "image", size_bytes, "test").code, Errc::ok);
    auto& superblock = reinterpret_cast<format::Superblock&>(superblock_);
    EXPECT_EQ(read_superblock(*disk_, "image", superblock).code, Errc::ok);
    used_.resize(superblock.frame_count * blocks_per_frame);
    const u64 system = superblock.root_inode / format::inodes_per_frame + 1;
    std::fill_n(used_.begin(), system * blocks_per_frame, true);
    next_metadata_ = system * format::frame_size;
    next_data_ = superblock.size_bytes;
    next_inode_ = superblock.orphan_directory + 1;
    for (const u64 number : {superblock.root_inode, superblock.orphan_directory}) {
        Inode& inode = nodes_[number].inode;
        inode = ImageEditor(*disk_).inode(number);
        inode.accessed = inode.modified = inode.changed = inode.born = birth;
    }
    be_the_same_always();
}

/// Replaces random values of a new volume by constants: a test's seed must determine the whole
/// test.
void ImageBuilder::be_the_same_always() {
    auto& superblock = reinterpret_cast<format::Superblock&>(superblock_);
    for (u8 i = 0; i < sizeof superblock.uuid; ++i)
        superblock.uuid[i] = static_cast<u8>(i * 7 + 1);
    superblock.hash_key[0] = 0x0123456789abcdef;
    superblock.hash_key[1] = 0xfedcba9876543210;
    superblock.created = birth;
    std::memcpy(&superblock.header.volume, superblock.uuid, sizeof superblock.header.volume);
    ASSERT_EQ(write_superblock(*disk_, superblock, transaction), Errc::ok);
}

u64 ImageBuilder::add_inode(u64 parent, const std::string& name, u32 mode) {
    const u64 number = next_inode_++;
    Inode& inode = nodes_[number].inode;
    inode.generation = static_cast<u32>(number % 1000 + 2);
    inode.mode = mode;
    inode.user = 1000;
    inode.group = 100;
    inode.accessed = inode.modified = inode.changed = inode.born = birth;
    add_name(parent, name, number);
    return number;
}

void ImageBuilder::add_name(u64 parent, const std::string& name, u64 inode) {
    nodes_[parent].names[name] = inode;
    if (parent != orphans()) ++nodes_[inode].inode.links;
}

u64 ImageBuilder::add_directory(u64 parent, const std::string& name) {
    const u64 number = add_inode(parent, name, format::type_directory | 0755);
    Inode& inode = nodes_[number].inode;
    inode.parent = parent;
    inode.links = parent == orphans() ? 0 : 2;
    inode.area_kind = static_cast<u8>(format::AreaKind::tree);
    if (parent != orphans()) ++nodes_[parent].inode.links;
    return number;
}

u64 ImageBuilder::add_file(u64 parent, const std::string& name, const std::string& contents) {
    const u64 number = add_inode(parent, name, format::type_regular | 0644);
    nodes_[number].contents = contents;
    nodes_[number].inode.size = contents.size();
    return number;
}

u64 ImageBuilder::add_orphan(const std::string& contents) {
    char name[17];
    std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(next_inode_));
    return add_file(orphans(), name, contents);
}

u64 ImageBuilder::add_runs(u64 parent, const std::string& name, u64 size_bytes,
                           const std::vector<FileRun>& runs) {
    const u64 number = add_inode(parent, name, format::type_regular | 0600);
    nodes_[number].runs = runs;
    nodes_[number].inode.size = size_bytes;
    nodes_[number].inode.area_kind = static_cast<u8>(format::AreaKind::extents);
    return number;
}

u64 ImageBuilder::add_clone(u64 parent, const std::string& name, u64 source) {
    Node& original = nodes_[source];
    original.is_shared = true;
    const u64 number = add_runs(parent, name, original.inode.size, original.runs);
    nodes_[number].source = source;
    return number;
}

u64 ImageBuilder::add_link(u64 parent, const std::string& name, const std::string& target) {
    const u64 number = add_inode(parent, name, format::type_symlink | 0777);
    nodes_[number].contents = target;
    nodes_[number].inode.size = target.size();
    return number;
}

u64 ImageBuilder::add_node(u64 parent, const std::string& name, u32 mode, u32 device) {
    const u64 number = add_inode(parent, name, mode);
    nodes_[number].inode.device = device;
    return number;
}

void ImageBuilder::set_attribute(u64 inode, const std::string& name, const std::string& value) {
    nodes_[inode].attributes[name] = value;
}

u64 ImageBuilder::hash_of(const std::string& name) const {
    return name_hash(superblock().hash_key, name.data(), static_cast<u32>(name.size()));
}

u64 ImageBuilder::take_metadata() {
    const u64 place = next_metadata_;
    used_[place / block_size] = true;
    next_metadata_ += block_size;
    EXPECT_LE(next_metadata_, next_data_);
    return place;
}

u64 ImageBuilder::take_data(u32 blocks) {
    next_data_ -= blocks * block_size;
    std::fill_n(used_.begin() + static_cast<std::ptrdiff_t>(next_data_ / block_size), blocks, true);
    EXPECT_LE(next_metadata_, next_data_);
    return next_data_;
}

void ImageBuilder::write_block(u64 place, Block& block) {
    format::seal_block(block, superblock().header.volume, place, transaction);
    ASSERT_EQ(disk_->write(place, std::as_bytes(std::span(&block, 1))), Errc::ok);
}

void ImageBuilder::write_tree(u64 number, Node& node) {
    std::vector<std::pair<u64, std::string>> keys;
    for (const auto& [name, inode] : node.names)
        keys.emplace_back(hash_of(name) << 8, name);
    std::ranges::sort(keys);
    std::vector<check::PackedEntry> entries;
    for (const auto& [key, name] : keys) {
        const u64 inode = node.names[name];
        entries.push_back({key, inode, format::entry_type(nodes_[inode].inode.mode), name});
    }
    Sink sink(*this);
    check::PackedTree tree;
    ASSERT_EQ(check::pack_directory(entries, {number, node.inode.generation}, sink, tree, limits),
              Errc::ok);
    check::set_root(node.inode, tree);
    node.inode.entries = entries.size();
    node.inode.size = tree.blocks * block_size;
    node.inode.blocks += tree.blocks;
}

void ImageBuilder::write_contents(u64 number, Node& node) {
    if (node.contents.size() <= format::area_bytes) {
        std::memcpy(node.inode.area.words, node.contents.data(), node.contents.size());
        return;
    }
    const u32 blocks = static_cast<u32>((node.contents.size() + block_size - 1) / block_size);
    const u64 place = take_data(blocks);
    ASSERT_EQ(disk_->write(place, std::as_bytes(std::span(node.contents))), Errc::ok);
    node.inode.area_kind = static_cast<u8>(format::AreaKind::extents);
    node.inode.area_count = 1;
    node.inode.area.extents[0] = {0, BlockPointer::to(place), blocks, 0};
    node.inode.blocks += blocks;
    static_cast<void>(number);
}

/// Allocates blocks for the runs of a file.
void ImageBuilder::place_runs(Node& node) {
    for (const FileRun& run : node.runs) {
        const u64 place = take_data(run.blocks);
        for (u32 i = 0; i < run.blocks; ++i) {
            fill(*disk_, place + i * block_size, run.file_block + i);
        }
        node.extents.push_back({run.file_block, BlockPointer::to(place), run.blocks,
                                (run.is_unwritten ? format::extent_unwritten : 0) |
                                    (node.is_shared ? format::extent_shared : 0)});
    }
}

void ImageBuilder::count_references(const Node& clone) {
    for (const Extent& extent : clone.extents) {
        const u64 first = extent.start.offset() / block_size;
        for (u64 block = first; block < first + extent.length; ++block) {
            Block& counts = counts_[block / blocks_per_frame];
            ++reinterpret_cast<format::ReferenceBlock&>(counts).extra[block % blocks_per_frame];
        }
    }
}

void ImageBuilder::write_runs(u64 number, Node& node) {
    if (node.source == 0) {
        place_runs(node);
    } else {
        node.extents = nodes_[node.source].extents;
        count_references(node);
    }
    const std::vector<Extent>& extents = node.extents;
    for (const Extent& extent : extents)
        node.inode.blocks += extent.length;
    if (extents.size() <= format::inline_extents_max) {
        std::ranges::copy(extents, node.inode.area.extents);
        node.inode.area_count = static_cast<u16>(extents.size());
        return;
    }
    Sink sink(*this);
    check::PackedTree tree;
    ASSERT_EQ(check::pack_extents(extents, {number, node.inode.generation}, sink, tree, limits),
              Errc::ok);
    check::set_root(node.inode, tree);
    node.inode.blocks += tree.blocks;
}

void ImageBuilder::write_target(u64 number, Node& node) {
    if (node.contents.size() <= format::area_bytes) {
        std::memcpy(node.inode.area.words, node.contents.data(), node.contents.size());
        return;
    }
    Block block{};
    auto& target = reinterpret_cast<format::LinkTarget&>(block);
    target.header.kind = static_cast<u16>(BlockKind::link_target);
    target.header.owner = number;
    target.header.owner_generation = node.inode.generation;
    target.length = static_cast<u32>(node.contents.size() - format::target_head_bytes);
    std::memcpy(target.bytes, node.contents.data() + format::target_head_bytes, target.length);
    const u64 place = take_metadata();
    write_block(place, block);
    node.inode.area_kind = static_cast<u8>(format::AreaKind::target);
    node.inode.area.words[0] = BlockPointer::to(place).raw;
    std::memcpy(node.inode.area.words + 1, node.contents.data(), format::target_head_bytes);
    node.inode.blocks += 1;
}

void ImageBuilder::write_attributes(u64 number, Node& node) {
    if (node.attributes.empty()) return;
    Block block{};
    auto& attributes = reinterpret_cast<format::AttributeBlock&>(block);
    attributes.header.kind = static_cast<u16>(BlockKind::attributes);
    attributes.header.owner = number;
    attributes.header.owner_generation = node.inode.generation;
    for (const auto& [name, value] : node.attributes) {
        const u16 lengths[2] = {static_cast<u16>(name.size()), static_cast<u16>(value.size())};
        u8* at = attributes.records + attributes.bytes_used;
        std::memcpy(at, lengths, sizeof lengths);
        std::memcpy(at + 4, name.data(), name.size());
        std::memcpy(at + 4 + name.size(), value.data(), value.size());
        attributes.bytes_used += static_cast<u32>((4 + name.size() + value.size() + 3) / 4 * 4);
    }
    const u64 place = take_metadata();
    write_block(place, block);
    node.inode.attributes = BlockPointer::to(place);
    node.inode.blocks += 1;
}

void ImageBuilder::finish() {
    for (auto& [number, node] : nodes_) {
        write_attributes(number, node);
        switch (node.inode.mode & format::type_mask) {
            case format::type_directory:
                write_tree(number, node);
                break;
            case format::type_regular:
                if (node.runs.empty())
                    write_contents(number, node);
                else
                    write_runs(number, node);
                break;
            case format::type_symlink:
                write_target(number, node);
                break;
            default:
                break;
        }
    }
    write_inodes();
    write_counts();
    write_table();
}

void ImageBuilder::write_inodes() {
    const u64 frame = root() / format::inodes_per_frame;
    Block block{};
    auto& bitmap = reinterpret_cast<format::InodeBitmap&>(block);
    bitmap.header.kind = static_cast<u16>(BlockKind::inode_bitmap);
    for (u64 slot = 0; slot < next_inode_ % format::inodes_per_frame; ++slot) {
        bitmap.used[slot / 64] |= u64{1} << slot % 64;
    }
    write_block(frame * format::frame_size, block);
    ImageEditor editor(*disk_);
    for (const auto& [number, node] : nodes_)
        editor.set_inode(number, node.inode);
}

void ImageBuilder::write_counts() {
    for (auto& [frame, block] : counts_) {
        auto& header = reinterpret_cast<format::BlockHeader&>(block);
        header.kind = static_cast<u16>(BlockKind::reference_counts);
        header.owner = frame;
        const u64 place = take_metadata();
        write_block(place, block);
        counts_at_[frame] = BlockPointer::to(place);
    }
}

void ImageBuilder::write_table() {
    auto& superblock = reinterpret_cast<format::Superblock&>(superblock_);
    const u64 first_metadata = root() / format::inodes_per_frame + 1;
    superblock.blocks_used = 0;
    superblock.inodes_used = nodes_.size();
    superblock.metadata_frames_end = (next_metadata_ - 1) / format::frame_size + 1;
    superblock.data_frames_begin = next_data_ / format::frame_size;
    for (u64 index = 0; index < superblock.frame_table_blocks; ++index) {
        Block block{};
        auto& table = reinterpret_cast<format::FrameTableBlock&>(block);
        for (u64 entry = 0; entry < format::frames_per_table_block; ++entry) {
            const u64 frame = index * format::frames_per_table_block + entry;
            if (frame >= superblock.frame_count) break;
            format::FrameEntry& out = table.entries[entry];
            for (u64 i = 0; i < blocks_per_frame; ++i) {
                if (!used_[frame * blocks_per_frame + i]) continue;
                out.used[i / 64] |= u64{1} << i % 64;
                ++superblock.blocks_used;
            }
            FrameKind kind = FrameKind::free;
            if (frame + 1 < first_metadata)
                kind = FrameKind::system;
            else if (frame + 1 == first_metadata)
                kind = FrameKind::inodes;
            else if (frame < superblock.metadata_frames_end)
                kind = FrameKind::metadata;
            else if (frame >= superblock.data_frames_begin)
                kind = FrameKind::data;
            out.kind = static_cast<u64>(kind);
            if (counts_at_.contains(frame)) out.references = counts_at_[frame].raw;
        }
        table.header.kind = static_cast<u16>(BlockKind::frame_table);
        write_block(superblock.frame_table_offset + index * block_size, block);
    }
    ASSERT_EQ(write_superblock(*disk_, superblock, transaction), Errc::ok);
}

ImageEditor::ImageEditor(Disk& disk) : disk_(disk) {
    auto& superblock = reinterpret_cast<format::Superblock&>(superblock_);
    EXPECT_EQ(read_superblock(disk_, "image", superblock).code, Errc::ok);
}

Block ImageEditor::read(u64 place) {
    Block block;
    EXPECT_EQ(disk_.read(place, std::as_writable_bytes(std::span(&block, 1))), Errc::ok);
    return block;
}

void ImageEditor::write(u64 place, const Block& block) {
    Block sealed = block;
    format::seal_block(sealed, superblock().header.volume, place, transaction);
    write_raw(place, sealed);
}

void ImageEditor::write_raw(u64 place, const Block& block) {
    ASSERT_EQ(disk_.write(place, std::as_bytes(std::span(&block, 1))), Errc::ok);
}

Inode ImageEditor::inode(u64 number) {
    const Block block = read(number * format::inode_size / block_size * block_size);
    return reinterpret_cast<const Inode*>(&block)[number % format::inodes_per_block];
}

void ImageEditor::set_inode(u64 number, const Inode& inode) {
    const u64 place = number * format::inode_size / block_size * block_size;
    const u64 slot = number % format::inodes_per_block;
    Block alone{};
    reinterpret_cast<Inode*>(&alone)[slot] = inode;
    format::seal_inodes(alone, superblock().header.volume, place, transaction);
    Block block = read(place);
    reinterpret_cast<Inode*>(&block)[slot] = reinterpret_cast<Inode*>(&alone)[slot];
    write_raw(place, block);
}

void ImageEditor::flip(u64 offset, u8 mask) {
    std::byte value;
    ASSERT_EQ(disk_.read(offset, std::span(&value, 1)), Errc::ok);
    value ^= std::byte{mask};
    ASSERT_EQ(disk_.write(offset, std::span(&value, 1)), Errc::ok);
}

void build_one_of_everything(ImageBuilder& image, int files, u32 runs) {
    image.limits = {4, 3, 3, 2};
    const u64 root = image.root();
    const u64 directory = image.add_directory(root, "directory");
    for (int i = 0; i < files; ++i) {
        image.add_file(directory, "file-" + std::to_string(i), "some contents");
    }
    const u64 inner = image.add_directory(image.add_directory(root, "outer"), "inner");
    const u64 text = image.add_file(inner, "text", std::string(5000, 't'));
    image.add_name(root, "text", text);
    image.set_attribute(text, "user.note", "some value");
    std::vector<FileRun> pieces;
    for (u32 i = 0; i < runs; ++i)
        pieces.push_back({i * 2, 1, i % 5 == 0});
    image.add_runs(root, "sparse", u64{2} * runs * format::block_size, pieces);
    image.add_runs(inner, "few", 3 * format::block_size, {{0, 1}, {2, 1}, {9, 2, true}});
    image.add_link(root, "link", "text");
    image.add_link(root, "long-link", std::string(300, 'l'));
    image.add_node(root, "device", format::type_character | 0600, 1u << 20 | 3);
    image.add_orphan("unlinked but open");
    const u64 shared = image.add_runs(inner, "shared", 3 * format::block_size, {{0, 1}, {1, 2}});
    image.add_clone(inner, "clone", shared);
    image.finish();
}

}  // namespace warren::test
