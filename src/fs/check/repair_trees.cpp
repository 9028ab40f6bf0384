// SPDX-License-Identifier: Apache-2.0
// The parts of a repair that read a damaged tree again and write a new one.
#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "fs/check/check_directories.hpp"
#include "fs/check/check_trees.hpp"
#include "fs/check/repair.hpp"
#include "fs/format/check_block.hpp"

namespace warren::check {

using format::Block;
using format::DirectoryLeaf;
using format::Inode;

namespace {

constexpr u32 numbers_per_hash = 256;

/// A name of the new tree; its bytes lie in the arena.
struct KeptName {
    u64 hash;
    u32 number;  // as in its key; numbers_per_hash: not assigned yet
    u32 length;
    u64 offset;
    u64 inode;
    u8 type;
};

/// Reads the leaves of a directory without claiming blocks, and keeps the entries that survive.
class Collecting final : public TreeVisitor {
 public:
    Collecting(Context& context, u32 directory, std::string& arena)
        : context_(context), directory_(directory), arena_(arena) {}

    void leaf(const TreeLeaf& leaf) override {
        const bool is_believed = leaf.is_sound || context_.damaged_leaves.contains(leaf.place);
        if (leaf.block == nullptr || !is_believed) return;
        if (!leaf.is_sound && !take(leaf.place)) return;
        read(leaf.place, *leaf.block);
    }

    void read(u64 place, const Block& block) {
        for (const EntryView& entry : read_entries(reinterpret_cast<const DirectoryLeaf&>(block))) {
            if (!survives(context_, directory_, entry, {place, entry.slot})) continue;
            const bool is_filed_well = entry.hash() == hash_of(context_, entry.name);
            add(entry.name, context_.inodes.ordinal_of(entry.inode),
                is_filed_well ? static_cast<u32>(entry.key & 0xff) : numbers_per_hash);
        }
    }

    void add(std::string_view name, u32 target, u32 number) {
        names.push_back({hash_of(context_, name), number, static_cast<u32>(name.size()),
                         arena_.size(), context_.inodes.number_of(target),
                         context_.inodes.types[target]});
        arena_ += name;
    }

    std::string_view text(const KeptName& name) const {
        return std::string_view(arena_).substr(name.offset, name.length);
    }

    std::vector<KeptName> names;

 private:
    Context& context_;
    const u32 directory_;
    std::string& arena_;
};

/// Adds the new names, with ".2", ".3" and so on appended if they are taken.
void add_names(Collecting& names, const std::vector<NewName>& more) {
    if (more.empty()) return;
    std::unordered_set<std::string> taken;
    for (const KeptName& name : names.names)
        taken.emplace(names.text(name));
    for (const NewName& added : more) {
        std::string name = added.name;
        for (u32 i = 2; !taken.insert(name).second; ++i) {
            name = added.name + "." + std::to_string(i);
        }
        names.add(name, added.target, numbers_per_hash);
    }
}

/// Makes entries of the names in `same`, which have one hash: drops repeated names and gives each
/// of the others a unique number. A name keeps its number if that is not taken.
std::vector<PackedEntry> assign_keys(const Collecting& names, std::span<const KeptName> same) {
    std::vector<PackedEntry> entries;
    bool taken[numbers_per_hash] = {};
    for (const bool is_second_try : {false, true}) {
        u32 next = 0;
        for (const KeptName& name : same) {
            const std::string_view text = names.text(name);
            const bool is_repeated = std::ranges::any_of(
                entries, [&](const PackedEntry& entry) { return entry.name == text; });
            if (is_repeated) continue;
            u32 number = name.number;
            if (!is_second_try && (number == numbers_per_hash || taken[number])) continue;
            if (is_second_try) {
                while (next < numbers_per_hash && taken[next])
                    ++next;
                if (next == numbers_per_hash) break;
                number = next;
            }
            taken[number] = true;
            entries.push_back({name.hash << 8 | number, name.inode, name.type, text});
        }
    }
    std::ranges::sort(entries, {}, &PackedEntry::key);
    return entries;
}

/// Lists the blocks of a tree that the check found to have an owner.
class BlockList final : public TreeVisitor {
 public:
    explicit BlockList(Context& context) : context_(context) {}
    bool take(u64 place) override {
        if (!TreeVisitor::take(place)) return false;
        if (context_.frames.is_owned(place)) places.push_back(place);
        return true;
    }
    void leaf(const TreeLeaf&) override {}
    std::vector<u64> places;

 private:
    Context& context_;
};

}  // namespace

TreeWriter::~TreeWriter() {
    if (is_finished_) return;
    for (const u64 place : places_)
        context_.frames.release(place, 1);
}

Result<u64> TreeWriter::allocate() {
    const Result<u64> place = context_.frames.allocate();
    if (place) places_.push_back(*place);
    return place;
}

Errc TreeWriter::put(u64 place, const Block& block) {
    blocks_.push_back(std::make_unique<Block>(block));
    format::seal_block(*blocks_.back(), context_.volume(), place, transaction_);
    return Errc::ok;
}

Errc TreeWriter::finish() {
    is_finished_ = true;
    if (blocks_.empty()) return Errc::ok;
    WARREN_TRY(context_.frames.write(transaction_, false));
    for (std::size_t i = 0; i < blocks_.size(); ++i)
        WARREN_TRY(context_.disk.write(places_[i], blocks_[i]->bytes()));
    return context_.disk.flush();
}

std::vector<PackedEntry> collect_names(Context& context, u32 directory,
                                       const std::vector<NewName>& more, std::string& arena) {
    Collecting names(context, directory, arena);
    const Inode inode = context.usable_inode(directory);
    walk_tree(context, directory, inode, names);
    for (const OwnedLeaf& found : found_leaves_of(context, directory)) {
        Block block;
        if (context.read(found.place, block)) names.read(found.place, block);
    }
    add_names(names, more);
    std::ranges::stable_sort(names.names, {}, &KeptName::hash);
    std::vector<PackedEntry> entries;
    const std::span<const KeptName> all = names.names;
    for (std::size_t first = 0; first < all.size();) {
        std::size_t last = first;
        while (last < all.size() && all[last].hash == all[first].hash)
            ++last;
        const auto some = assign_keys(names, all.subspan(first, last - first));
        entries.insert(entries.end(), some.begin(), some.end());
        first = last;
    }
    return entries;
}

std::vector<u64> tree_blocks_of(Context& context, u32 ordinal, const Inode& inode) {
    BlockList list(context);
    if (inode.area_kind == static_cast<u8>(format::AreaKind::tree)) {
        walk_tree(context, ordinal, inode, list);
    }
    for (const OwnedLeaf& found : found_leaves_of(context, ordinal)) {
        list.places.push_back(found.place);
    }
    return list.places;
}

}  // namespace warren::check
