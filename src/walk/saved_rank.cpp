// SPDX-License-Identifier: Apache-2.0
// A directory is finished when everything that holds it is done: its subdirectories, its waiting
// items and the results due under its lease. So a state is consistent if each directory is held by
// at least one of these, as many results are due under each lease as other ranks owe, and no
// directory waits, through leases, for its own result.
#include "walk/saved_rank.hpp"

#include <algorithm>
#include <limits>

#include "walk/bytes.hpp"
#include "walk/leases.hpp"
#include "walk/names.hpp"
#include "walk/work_batch.hpp"

namespace warren::walk {

namespace {

/// The fixed part of a directory record.
struct DirectoryRecord {
    u32 above;
    u8 kind;
    u8 has_identity;
    u8 complete;
    u8 zero;
    u32 children;
    u32 owner_rank;
    u64 owner_lease;
    u64 device;
    u64 inode;
    i64 position;
};
static_assert(std::has_unique_object_representations_v<DirectoryRecord>, "it has padding");

constexpr size_t least_waiting_bytes = sizeof(u8) + sizeof(u32) + sizeof(u8);
constexpr size_t lease_bytes = sizeof(u64) + sizeof(u32) + sizeof(u64);
constexpr u64 lease_number_mask = (u64{1} << lease_rank_shift) - 1;
constexpr u64 most_leases_issued = lease_number_mask / 2;  // leaves room for those to be issued
constexpr u64 most_holds = std::numeric_limits<u32>::max() / 2;

/// Whether a directory or an item can have this name: the name of an entry, or of one of the roots.
bool is_name(std::string_view name, bool is_root, std::span<const std::string> roots) {
    return is_root ? std::ranges::find(roots, name) != roots.end() : is_entry_name(name);
}

void write_directory(ByteWriter& writer, const SavedRank::Directory& directory) {
    writer.put(DirectoryRecord{
        directory.above, static_cast<u8>(directory.kind), static_cast<u8>(directory.has_identity),
        static_cast<u8>(directory.complete), 0, directory.children, directory.owner.rank,
        directory.owner.lease, directory.identity.device, directory.identity.inode,
        directory.position});
    writer.put_bytes(directory.name);
    writer.put_bytes(directory.result);
}

/// Reads a saved state and checks each part of it.
class Loader {
 public:
    Loader(std::string_view bytes, const SavedWalk& walk, SavedRank& saved)
        : reader_(bytes, Origin::file), walk_(walk), saved_(saved) {}

    bool load() {
        load_head();
        for (u64 left = reader_.get_count(sizeof(DirectoryRecord)); left > 0; --left)
            load_directory();
        holds_.resize(saved_.directories.size() + 1);
        for (const SavedRank::Directory& directory : saved_.directories)
            ++holds_[directory.above];
        for (u64 left = reader_.get_count(least_waiting_bytes); left > 0; --left)
            load_waiting();
        for (u64 left = reader_.get_count(lease_bytes); left > 0; --left)
            load_lease();
        while (!reader_.at_end()) {
            const u64 device = reader_.get<u64>();
            const u64 inode = reader_.get<u64>();
            saved_.files.push_back({device, inode, reader_.get<u32>()});
        }
        const auto is_held = [](u64 holds) { return holds > 0 && holds <= most_holds; };
        return reader_.good() && std::all_of(holds_.begin() + 1, holds_.end(), is_held);
    }

 private:
    void load_head() {
        saved_.work_batches = reader_.get<u64>();
        for (u64 left = reader_.get_count(sizeof(u32)); left > 0; --left) {
            saved_.walks_since.push_back(reader_.get<u32>());
            reader_.expect(saved_.walks_since.back() > 0);
        }
        saved_.counts = reader_.get<SavedRank::Counts>();
        reader_.expect(saved_.counts.leases_issued <= most_leases_issued);
        saved_.result = reader_.get_bytes();
        reader_.expect(saved_.result.empty() || is_result(saved_.result));
        saved_.caller = reader_.get_bytes();
    }

    void load_directory() {
        const auto record = reader_.get<DirectoryRecord>();
        const std::string_view name = reader_.get_bytes();
        const std::string_view result = reader_.get_bytes();
        const bool fits = record.above <= saved_.directories.size() &&
                          record.kind <= static_cast<u8>(NodeKind::ghost) &&
                          record.has_identity <= 1 && record.complete <= 1 && record.zero == 0;
        if (!reader_.expect(fits)) return;
        const auto kind = static_cast<NodeKind>(record.kind);
        const bool is_ghost = kind == NodeKind::ghost;
        // Directories taken over lie below ghosts, all others below directories that are walked
        // here.
        reader_.expect(record.above == 0 || (kind != NodeKind::own) == is_at_ghost(record.above));
        reader_.expect(is_name(name, record.above == 0, walk_.roots));
        reader_.expect(is_ghost ? result.empty() : is_result(result));
        saved_.directories.push_back({record.above,
                                      kind,
                                      record.has_identity != 0,
                                      record.complete != 0,
                                      {record.owner_rank, record.owner_lease},
                                      {record.device, record.inode},
                                      record.position,
                                      record.children,
                                      name,
                                      result});
    }

    void load_waiting() {
        const u8 work = reader_.get<u8>();
        SavedRank::Waiting item;
        item.directory = reader_.get<u32>();
        if (reader_.get<bool>()) item.payload = reader_.get_bytes();
        item.work = static_cast<Work>(work);
        const bool fits = work <= static_cast<u8>(Work::merge) && holds(item.directory, 1);
        if (!reader_.expect(fits && is_sound(item))) return;
        saved_.waiting.push_back(item);
    }

    bool is_sound(const SavedRank::Waiting& item) {
        if (item.work == Work::merge) {
            return item.payload && (item.payload->empty() || is_result(*item.payload));
        }
        if (item.directory == 0) return false;
        if (item.work != Work::directory) {
            return item.payload && (item.work == Work::task || are_records(*item.payload));
        }
        const NodeKind kind = saved_.directories[item.directory - 1].kind;
        const bool is_walked = kind == NodeKind::own || kind == NodeKind::adopted;
        // at most one reader per directory
        return !item.payload && is_walked && read_.insert(item.directory).second;
    }

    void load_lease() {
        SavedRank::Lease lease;
        lease.number = reader_.get<u64>();
        lease.directory = reader_.get<u32>();
        lease.due = reader_.get<u64>();
        const u64 number = lease.number & lease_number_mask;
        reader_.expect(number > 0 && number <= saved_.counts.leases_issued);
        reader_.expect(lease.due > 0 && lease.due <= most_holds &&
                       holds(lease.directory, lease.due));
        saved_.leases.push_back(lease);
    }

    /// Counts something that holds a directory, or the whole walk (0). Returns whether that is
    /// allowed.
    bool holds(u32 directory, u64 times) {
        if (directory >= holds_.size() || is_at_ghost(directory)) return false;
        holds_[directory] += times;
        return true;
    }
    bool is_at_ghost(u32 directory) const {
        return directory != 0 && saved_.directories[directory - 1].kind == NodeKind::ghost;
    }
    bool is_result(std::string_view bytes) const { return bytes.size() == walk_.result_bytes; }

    ByteReader reader_;
    const SavedWalk& walk_;
    SavedRank& saved_;
    std::vector<u64> holds_;  // by directory; index 0: the whole walk
    std::set<u32> read_;
};

}  // namespace

std::string write_saved(const SavedRank& saved) {
    ByteWriter writer;
    writer.put(saved.work_batches);
    writer.put(static_cast<u32>(saved.walks_since.size()));
    for (const u32 ranks : saved.walks_since)
        writer.put(ranks);
    writer.put(saved.counts);
    writer.put_bytes(saved.result);
    writer.put_bytes(saved.caller);
    writer.put(static_cast<u32>(saved.directories.size()));
    for (const SavedRank::Directory& directory : saved.directories)
        write_directory(writer, directory);
    writer.put(static_cast<u32>(saved.waiting.size()));
    for (const SavedRank::Waiting& item : saved.waiting) {
        writer.put(item.work);
        writer.put(item.directory);
        writer.put(item.payload.has_value());
        if (item.payload) writer.put_bytes(*item.payload);
    }
    writer.put(static_cast<u32>(saved.leases.size()));
    for (const SavedRank::Lease& lease : saved.leases) {
        writer.put(lease.number);
        writer.put(lease.directory);
        writer.put(lease.due);
    }
    for (const SavedRank::File& file : saved.files) {
        writer.put(file.device);
        writer.put(file.inode);
        writer.put(file.names_left);
    }
    return writer.take();
}

Errc read_saved(std::string_view bytes, const SavedWalk& walk, SavedRank& saved) {
    saved = {};
    return Loader(bytes, walk, saved).load() ? Errc::ok : Errc::corrupt;
}

bool SavedLeases::add(u32 rank, const SavedRank& saved) {
    for (const SavedRank::Lease& lease : saved.leases) {
        if (!leases_.insert(lease.number).second) return false;
        due_[{rank, lease.number}] = lease.due;
        for (u32 at = lease.directory; at != 0; at = saved.directories[at - 1].above) {
            const SavedRank::Directory& directory = saved.directories[at - 1];
            if (result_target(directory.kind) != ResultTarget::owner) continue;
            returned_under_[{rank, lease.number}] = directory.owner;
            break;
        }
    }
    for (const SavedRank::Directory& directory : saved.directories)
        if (result_target(directory.kind) == ResultTarget::owner) owe(directory.owner);
    return true;
}

bool SavedLeases::wait_in_a_circle() const {
    std::set<Owner> seen;
    for (const auto& [first, ignored] : returned_under_) {
        std::set<Owner> path;
        auto at = returned_under_.find(first);
        while (at != returned_under_.end() && !seen.contains(at->first)) {
            if (!path.insert(at->first).second) return true;
            at = returned_under_.find(at->second);
        }
        seen.merge(path);
    }
    return false;
}

Owner owner_after(Owner owner, std::span<const u32> walks) {
    for (const u32 ranks : walks)
        owner.rank %= ranks;
    return owner;
}

bool check_saved_batch(std::string_view batch, const SavedWalk& walk,
                       const std::function<void(const Owner&)>& visitor) {
    WorkBatchReader reader(batch, Origin::file);
    u64 depth = 0;  // of the group's directory
    WorkBatch::Content content{};
    while (reader.begin_group()) {
        if (reader.kept_steps() > depth) return false;
        depth = reader.kept_steps();
        for (const WorkBatch::Directory& step : reader.steps())
            if (!is_name(step.name, depth++ == 0, walk.roots)) return false;
        while (reader.next_item(content)) {
            const bool is_whole =
                is_name(content.directory.name, depth == 0, walk.roots) &&
                content.work <= Work::names &&
                (content.result.empty() || content.result.size() == walk.result_bytes) &&
                (content.work != Work::names || unpack_names(content.payload));
            if (!is_whole) return false;
            visitor(content.owner);
        }
    }
    return reader.good();
}

}  // namespace warren::walk
