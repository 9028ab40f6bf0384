// SPDX-License-Identifier: Apache-2.0
// All trees are read first. Then the leaves that broken trees no longer lead to are searched for.
// Entries of damaged leaves are accepted last, and only if their inode lacks a name.
#include "fs/check/check_directories.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/quote.hpp"
#include "fs/check/check_trees.hpp"
#include "fs/core/name_hash.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::check {

using format::Block;
using format::block_size;
using format::DirectoryLeaf;
using format::Inode;

namespace {

/// An entry for a directory whose inode has another parent, or that has a name already, or in the
/// orphan directory.
struct Stray {
    u32 directory;
    u32 target;
    EntryPlace place;
};

/// What is wrong with an entry by itself, or null.
const char* find_entry_flaw(const Context& context, u32 directory, const EntryView& entry) {
    const u32 target = context.inodes.ordinal_of(entry.inode);
    if (target == nobody) return "names what is no inode";
    const Status status = context.inodes.statuses[target];
    if (status == Status::absent) return "names an inode that does not exist";
    if (status == Status::unusable) return "names an inode that cannot be used";
    if (context.is_special(target)) return "names a directory that must have no name";
    if (directory == context.orphans && entry.name != format::OrphanName(entry.inode).view()) {
        return "is no name for an orphan";
    }
    return nullptr;
}

class DirectoryScan {
 public:
    explicit DirectoryScan(Context& context) : context_(context), inodes_(context.inodes) {}

    void run() {
        for (u32 ordinal = 0; ordinal < inodes_.count(); ++ordinal) {
            if (inodes_.exists(ordinal) && inodes_.is_directory(ordinal)) scan(ordinal);
            scan_waiting();
        }
        std::ranges::sort(broken_);
        find_leaves(context_, broken_);
        for (const OwnedLeaf& found : context_.found_leaves)
            scan_found(found);
        scan_waiting();
        for (const OwnedLeaf& damaged : damaged_)
            believe(damaged);
        scan_waiting();
        // A name in the orphan directory counts only if there is no other.
        std::ranges::stable_partition(
            strays_, [&](const Stray& stray) { return stray.directory != context_.orphans; });
        for (const Stray& stray : strays_)
            place_stray(stray);
    }

 private:
    /// The visitor of one directory's tree.
    class Visitor final : public TreeVisitor {
     public:
        Visitor(DirectoryScan& scan, u32 directory) : scan_(scan), directory_(directory) {}
        bool take(u64 place) override {
            ++blocks;
            const Trust trust = scan_.context_.trust(directory_);
            return scan_.context_.frames.claim(place, 1, FrameKind::metadata, trust) == 1;
        }
        void leaf(const TreeLeaf& leaf) override;
        void flaw(const std::string& text, bool loses) override {
            scan_.context_.problem(directory_, text);
            scan_.inodes_.set(directory_, mark_rebuild);
            if (loses) scan_.inodes_.set(directory_, mark_broken);
        }
        u64 blocks = 0;
        u64 entries = 0;

     private:
        DirectoryScan& scan_;
        const u32 directory_;
        u64 next_key_ = 0;
    };

    /// The names met so far that have the same hash; they may lie in two adjacent leaves.
    struct SameHash {
        u64 hash = ~u64{0};
        std::vector<std::string> names;
    };

    void scan(u32 directory);
    void compare_counts(u32 directory, const Inode& inode, const Visitor& visitor, u64 attributes);
    void scan_waiting();
    void scan_found(const OwnedLeaf& found);
    void scan_leaf(u32 directory, u64 place, const DirectoryLeaf& leaf, u64& entries);
    bool scan_entry(u32 directory, const EntryView& entry, EntryPlace place);
    bool is_repeated(const EntryView& entry);
    void believe(const OwnedLeaf& damaged);
    bool is_believable(u32 directory, const EntryView& entry);
    void meet(u32 directory, u32 target, EntryPlace place);
    void place_stray(const Stray& stray);
    void place(u32 directory, u32 target, EntryPlace place);
    void remember(u32 directory, u32 target, EntryPlace place);
    void spoil(u32 directory, std::string text) {
        context_.problem(directory, std::move(text));
        inodes_.set(directory, mark_rebuild);
    }

    Context& context_;
    InodeMap& inodes_;
    SameHash same_;
    std::vector<u32> waiting_;  // to be scanned: directories with a damaged bitmap that have a name
    std::vector<u32> broken_;
    std::vector<OwnedLeaf> damaged_;
    std::vector<Stray> strays_;
};

void DirectoryScan::Visitor::leaf(const TreeLeaf& leaf) {
    if (!leaf.is_sound) {
        // The pointer in a damaged inode may be wrong, so the real leaf may lie elsewhere.
        const bool may_lie_elsewhere = scan_.context_.trust(directory_) == Trust::little;
        flaw("the directory leaf at " + std::to_string(leaf.place) + " is damaged",
             may_lie_elsewhere);
        if (leaf.block != nullptr) scan_.damaged_.push_back({directory_, leaf.place});
        return;
    }
    const auto& content = reinterpret_cast<const DirectoryLeaf&>(*leaf.block);
    if (scan_.context_.trust(directory_) == Trust::little) {
        scan_.context_.plans[directory_].generation = content.header.owner_generation;
    }
    bool is_ordered = true;
    u64 next = std::max(next_key_, leaf.low);
    for (const EntryView& entry : read_entries(content)) {
        is_ordered = is_ordered && entry.key >= next && entry.key < leaf.high;
        next = entry.key + 1;
    }
    next_key_ = next;
    if (!is_ordered) flaw("entries are out of order", false);
    scan_.scan_leaf(directory_, leaf.place, content, entries);
}

void DirectoryScan::scan(u32 directory) {
    const Inode inode = context_.usable_inode(directory);
    same_ = {};
    Visitor visitor(*this, directory);
    walk_tree(context_, directory, inode, visitor);
    if (inodes_.has(directory, mark_broken)) broken_.push_back(directory);
    const u64 attributes = check_attributes(context_, directory, inode);
    compare_counts(directory, inode, visitor, attributes);
}

void DirectoryScan::compare_counts(u32 directory, const Inode& inode, const Visitor& visitor,
                                   u64 attributes) {
    if (inodes_.has(directory, mark_rebuild)) return;
    const u64 blocks = visitor.blocks + attributes;
    const u64 counted = inode.entries & ~format::entries_dying;
    if (visitor.entries != counted) {
        context_.wrong(directory, "counts " + std::to_string(counted) + " names, it has " +
                                      std::to_string(visitor.entries));
    }
    if (blocks != inode.blocks || inode.size != visitor.blocks * block_size) {
        context_.wrong(directory, "counts " + std::to_string(inode.blocks) +
                                      " blocks and a size of " + std::to_string(inode.size) +
                                      ", it has " + std::to_string(blocks) + " blocks");
    }
    if (!inodes_.has(directory, mark_write)) return;
    InodePlan& plan = context_.plans[directory];
    plan.blocks = blocks;
    plan.entries = visitor.entries;
}

/// Scans the directories that exist only because an entry names them (Status::doubtful).
void DirectoryScan::scan_waiting() {
    while (!waiting_.empty()) {
        const u32 directory = waiting_.back();
        waiting_.pop_back();
        scan(directory);
    }
}

void DirectoryScan::scan_found(const OwnedLeaf& found) {
    Block block;
    if (!context_.read(found.place, block)) return;
    u64 entries = 0;
    same_ = {};
    scan_leaf(found.owner, found.place, reinterpret_cast<const DirectoryLeaf&>(block), entries);
}

void DirectoryScan::scan_leaf(u32 directory, u64 place, const DirectoryLeaf& leaf, u64& entries) {
    if (!format::directory_leaf_is_sound(leaf)) {
        spoil(directory, "the directory leaf at " + std::to_string(place) + " contradicts itself");
    }
    for (const EntryView& entry : read_entries(leaf)) {
        if (scan_entry(directory, entry, {place, entry.slot})) ++entries;
    }
}

/// Whether the directory has this name already. Called in the order of keys.
bool DirectoryScan::is_repeated(const EntryView& entry) {
    if (entry.hash() != same_.hash) {
        same_.hash = entry.hash();
        same_.names.clear();
    }
    // A hash has at most 256 names in a directory, so further ones have a wrong key, which is
    // reported.
    if (same_.names.size() > 256) return false;
    if (std::ranges::find(same_.names, entry.name) != same_.names.end()) return true;
    same_.names.emplace_back(entry.name);
    return false;
}

/// Checks one entry and notes the inode that it names; returns whether the entry is kept.
bool DirectoryScan::scan_entry(u32 directory, const EntryView& entry, EntryPlace place) {
    const auto complain = [&](const char* text) {
        spoil(directory, shell_quoted(entry.name) + " " + text);
    };
    if (entry.hash() != hash_of(context_, entry.name)) complain("is filed under a wrong hash");
    if (is_repeated(entry)) {
        complain("is there twice");
        return false;
    }
    const u32 target = inodes_.ordinal_of(entry.inode);
    if (const char* flaw = find_entry_flaw(context_, directory, entry)) {
        complain(flaw);
        // The name will be removed, but reports about the inode should have a path.
        const bool is_unusable = target != nobody && inodes_.statuses[target] == Status::unusable;
        if (is_unusable && inodes_.name_blocks[target] == 0) remember(directory, target, place);
        return false;
    }
    if (entry.type != inodes_.types[target]) complain("is marked as another type than it has");
    meet(directory, target, place);
    return true;
}

/// Notes that `target` has a name in `directory`, and so exists.
void DirectoryScan::meet(u32 directory, u32 target, EntryPlace at) {
    if (inodes_.statuses[target] == Status::doubtful) {
        inodes_.statuses[target] = Status::sound;
        if (inodes_.is_directory(target)) waiting_.push_back(target);
    }
    const bool is_orphan_name = directory == context_.orphans;
    const bool is_placed = inodes_.has(target, mark_placed);
    if (is_orphan_name && !is_placed) inodes_.set(target, mark_orphan);
    if (!inodes_.is_directory(target)) {
        if (inodes_.names[target] == 0) remember(directory, target, at);
        if (!is_orphan_name) ++inodes_.names[target];
    } else if (!is_placed && !is_orphan_name && inodes_.parents[target] == directory) {
        place(directory, target, at);
    } else {
        strays_.push_back({directory, target, at});
    }
}

void DirectoryScan::remember(u32 directory, u32 target, EntryPlace at) {
    inodes_.parents[target] = directory;
    inodes_.name_blocks[target] = static_cast<u32>(at.leaf / block_size);
    inodes_.name_slots[target] = static_cast<u8>(at.slot);
}

/// Accepts the entry as the name of the directory `target`.
void DirectoryScan::place(u32 directory, u32 target, EntryPlace at) {
    remember(directory, target, at);
    inodes_.set(target, mark_placed);
    if (directory == context_.orphans) return;
    inodes_.clear(target, mark_orphan);
    ++inodes_.names[directory];
}

/// Accepts a stray entry if its directory has no other name; else reports the second name.
void DirectoryScan::place_stray(const Stray& stray) {
    if (inodes_.has(stray.target, mark_placed)) {
        spoil(stray.directory, "has a second name for the directory " +
                                   std::to_string(inodes_.number_of(stray.target)));
        return;
    }
    place(stray.directory, stray.target, stray.place);
    if (stray.directory == context_.orphans) return;
    context_.wrong(stray.target, "says that it lies in another directory");
}

/// Accepts the plausible entries of a damaged leaf.
void DirectoryScan::believe(const OwnedLeaf& damaged) {
    Block block;
    if (context_.damaged_leaves.contains(damaged.place) ||
        context_.frames.is_owned(damaged.place) || !context_.read(damaged.place, block)) {
        return;
    }
    KeptEntries& kept = context_.damaged_leaves[damaged.place];
    same_ = {};
    for (const EntryView& entry : read_entries(reinterpret_cast<const DirectoryLeaf&>(block))) {
        if (is_repeated(entry) || !is_believable(damaged.owner, entry)) continue;
        kept.set(entry.slot);
        meet(damaged.owner, inodes_.ordinal_of(entry.inode), {damaged.place, entry.slot});
    }
}

bool DirectoryScan::is_believable(u32 directory, const EntryView& entry) {
    if (entry.hash() != hash_of(context_, entry.name)) return false;
    if (find_entry_flaw(context_, directory, entry) != nullptr) return false;
    const u32 target = inodes_.ordinal_of(entry.inode);
    if (entry.type != inodes_.types[target]) return false;
    if (inodes_.is_directory(target)) {
        return !inodes_.has(target, mark_placed) && !inodes_.has(target, mark_orphan) &&
               (directory == context_.orphans || inodes_.parents[target] == directory);
    }
    if (directory == context_.orphans) return inodes_.name_blocks[target] == 0;
    return inodes_.names[target] < context_.usable_inode(target).links;
}

}  // namespace

u64 hash_of(const Context& context, std::string_view name) {
    return name_hash(context.superblock.hash_key, name.data(), static_cast<u32>(name.size())) &
           context.hash_mask;
}

void scan_directories(Context& context) {
    DirectoryScan(context).run();
}

bool survives(const Context& context, u32 directory, const EntryView& entry, EntryPlace place) {
    if (find_entry_flaw(context, directory, entry) != nullptr) return false;
    const u32 target = context.inodes.ordinal_of(entry.inode);
    if (!context.inodes.exists(target)) return false;
    if (const auto found = context.damaged_leaves.find(place.leaf);
        found != context.damaged_leaves.end() && !found->second.test(place.slot)) {
        return false;
    }
    if (!context.inodes.is_directory(target)) {
        return directory != context.orphans ||
               format::file_names_are_sound(context.inodes.names[target], true);
    }
    return context.inodes.has(target, mark_placed) && context.inodes.parents[target] == directory &&
           context.inodes.name_blocks[target] == place.leaf / block_size &&
           context.inodes.name_slots[target] == place.slot;
}

}  // namespace warren::check
