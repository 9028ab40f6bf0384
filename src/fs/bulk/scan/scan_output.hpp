// SPDX-License-Identifier: Apache-2.0
// The results of a scan on a GPU, as the host receives them: records of 64 to 88 bytes with their
// names, in bundles. A bundle holds entries of one leaf.
//
// Invariant: a bundle is written only if there is room for the largest leaf, in addition to those
// of all other workers; so no bundle is incomplete.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "fs/bulk/scan/scan_work.hpp"
#include "fs/core/directory_leaf.hpp"

namespace warren::bulk {

/// Entries of one leaf that one round has found: this header, the records, their names.
struct ScanBundle {
    u32 above;  // index of the directory that holds the entries, or of its sum
    u32 depth;  // of the entries
    u32 count;
    u32 words;     // length of the whole bundle, in words of 8 bytes
    u32 is_short;  // its records are ShortRecord, and their owner and group are:
    u32 user;
    u32 group;
    u32 zero;
};

/// Copies the attributes that both kinds of records have, each to a field of its own width. Field
/// by field, because this function and the next take most of the time of a visit.
template <class Record>
WARREN_HD void note_attributes(Record& record, const Attributes& of, u32 name_of_record) {
    record.name = name_of_record;
    record.inode = of.handle.inode;
    record.generation = of.handle.generation;
    record.mode = static_cast<decltype(record.mode)>(of.mode);
    record.links = static_cast<decltype(record.links)>(of.links);
    record.size = of.size;
    record.blocks = static_cast<decltype(record.blocks)>(of.blocks);
    record.accessed = of.accessed;
    record.modified = of.modified;
    record.changed = of.changed;
    record.born = of.born;
}
/// Copies the attributes back.
template <class Record>
WARREN_HD void tell_attributes(const Record& record, Attributes& of) {
    of.handle.inode = record.inode;
    of.handle.generation = record.generation;
    of.mode = record.mode;
    of.links = record.links;
    of.size = record.size;
    of.blocks = record.blocks;
    of.accessed = record.accessed;
    of.modified = record.modified;
    of.changed = record.changed;
    of.born = record.born;
}

/// An entry. It is small, because all records are copied over the bus; the parent of a directory is
/// the directory in which it was found.
struct ScanRecord {
    u64 inode;
    u32 generation;
    u32 mode;
    u32 links;
    u32 user;
    u32 group;
    u32 device;
    u64 size;
    u64 blocks;
    i64 accessed;
    i64 modified;
    i64 changed;
    i64 born;
    u32 directory;  // of a directory: its index, or that of its sum
    u32 name;       // offset in words from the bundle's start << 8 | length in bytes

    WARREN_HD void set(const Attributes& of, u32 name_of_record) {
        note_attributes(*this, of, name_of_record);
        user = of.user;
        group = of.group;
        device = of.device;
    }
    Handle handle() const { return {inode, generation}; }
    WARREN_HD bool is_directory() const { return format::is_directory(mode); }
    /// Sets `of` to the attributes of an entry of the directory `in`.
    WARREN_HD void tell(Handle in, Attributes& of) const {
        tell_attributes(*this, of);
        of.user = user;
        of.group = group;
        of.device = device;
        of.parent = is_directory() ? in.inode : 0;
    }
};

/// A smaller record for the common case: neither a directory nor a device, with the owner and group
/// of its bundle.
struct ShortRecord {
    u64 inode;
    u32 generation;
    u32 name;  // as in ScanRecord
    u64 size;
    u32 blocks;
    u16 mode;
    u16 links;
    i64 accessed;
    i64 modified;
    i64 changed;
    i64 born;

    /// Whether a bundle with this owner and group can hold the entry as a short record.
    static WARREN_HD bool fits(const Attributes& of, u32 user, u32 group) {
        return !format::is_directory(of.mode) && of.device == 0 && of.user == user &&
               of.group == group && of.mode <= 0xffff && of.links <= 0xffff &&
               of.blocks <= 0xffffffff;
    }
    WARREN_HD void set(const Attributes& of, u32 name_of_record) {
        note_attributes(*this, of, name_of_record);
    }
    static constexpr bool is_directory() { return false; }
    /// Sets the attributes that differ within the bundle.
    WARREN_HD void tell(Handle /*in*/, Attributes& of) const { tell_attributes(*this, of); }
};
inline constexpr u32 bundle_words = sizeof(ScanBundle) / 8;
inline constexpr u32 record_words = sizeof(ScanRecord) / 8;
inline constexpr u32 short_record_words = sizeof(ShortRecord) / 8;
static_assert(sizeof(ScanRecord) % 8 == 0 && sizeof(ShortRecord) == 64);

/// What the host knows of a bundle before the bundle's words have arrived.
struct BundlePlace {
    u32 begin;  // in words of the output; higher than that of the bundle before
    u16 records;
    u16 directories;  // among the records
};

/// The copy of a run's output to the host, while it is in progress.
class ScanArrival {
 public:
    virtual ~ScanArrival() = default;
    /// Waits until `words` words have arrived. False if they never will. Called by many threads.
    virtual bool wait_for(u64 words) const = 0;
};

/// The output of a run, in host memory.
struct ScanOutput {
    const u64* words = nullptr;
    u64 word_count = 0;
    std::span<const BundlePlace> bundles = {};  // a directory's record precedes its entries
    u32 directory_count = 0;                    // number of directories found by all runs so far
    std::span<const FrameMasks> masks = {};     // ScanPurpose::list; in any order
    const ScanArrival* arrival = nullptr;       // null: everything has arrived

    /// Waits for the words of a bundle, or for all. The members below require that it has returned
    /// true.
    bool await(std::size_t index) const {
        if (arrival == nullptr) return true;
        return arrival->wait_for(index + 1 < bundles.size() ? bundles[index + 1].begin
                                                            : word_count);
    }
    bool await_all() const { return arrival == nullptr || arrival->wait_for(word_count); }

    const ScanBundle& bundle(std::size_t index) const {
        return *reinterpret_cast<const ScanBundle*>(words + bundles[index].begin);
    }
    /// The records of a bundle. `Record` must be ShortRecord if the bundle is_short, else
    /// ScanRecord.
    template <class Record = ScanRecord>
    std::span<const Record> records(std::size_t index) const {
        const auto* first =
            reinterpret_cast<const Record*>(words + bundles[index].begin + bundle_words);
        return {first, bundle(index).count};
    }
    /// Calls `action(record)` for the records of a bundle, of the kind that it has.
    template <class Action>
    void for_each_record(std::size_t index, const Action& action) const {
        if (bundle(index).is_short != 0) {
            std::ranges::for_each(records<ShortRecord>(index), action);
        } else {
            std::ranges::for_each(records(index), action);
        }
    }
    template <class Record>
    std::string_view name(std::size_t index, const Record& record) const {
        const u64* at = words + bundles[index].begin + (record.name >> 8);
        return {reinterpret_cast<const char*>(at), record.name & 0xff};
    }
};

/// The maximum that one leaf adds to the output, in words and in bundles.
inline constexpr u64 leaf_output_words =
    u64{format::leaf_entries_max} * (record_words + bundle_words) + format::leaf_heap_bytes / 8;
inline constexpr u64 leaf_bundles = format::leaf_entries_max;

/// The parts of ScanState::written.
WARREN_HD constexpr u64 written_words(u64 written) {
    return written & ((u64{1} << written_shift) - 1);
}
WARREN_HD constexpr u64 written_bundles(u64 written) {
    return written >> written_shift;
}

/// Whether there is room for the entries of a leaf, in addition to those of all other workers.
WARREN_HD inline bool has_output_room(const ScanRef& ref, u64 written) {
    return written_words(written) + ref.workers * leaf_output_words <= ref.output_max &&
           written_bundles(written) + ref.workers * leaf_bundles <= ref.bundle_max;
}

/// Writes entries to the output. Members are collective unless they say "one lane".
template <class Team>
class OutputTeller {
 public:
    WARREN_HD OutputTeller(const Team& team, const ScanRef& ref) : team_(team), ref_(ref) {}

    /// Whether the scan should stop for now.
    WARREN_HD bool is_full() const { return false; }
    WARREN_HD void note_listed(u32 /*names*/) const {}
    /// One lane.
    WARREN_HD bool has_room() const {
        return has_output_room(ref_, relaxed_load(ref_.state->written));
    }
    /// Reports an entry of the directory `in`, and returns whether to descend into it if it is a
    /// directory. Always true here: the host calls its visitor later and drops what is below a
    /// directory that the visitor declines. One lane.
    WARREN_HD bool visit(Handle /*in*/, u32 /*depth*/, const format::DirectoryLeaf& /*leaf*/,
                         const ScanFound& /*found*/) const {
        return true;
    }
    /// Writes the entries of the lanes in `told`. `above` and `directory` (of directories) are as
    /// in ScanBundle and ScanRecord.
    WARREN_HD void write(u32 above, u32 depth, const format::DirectoryLeaf& leaf,
                         const ScanFound& found, u32 told, u32 directory) const {
        const u32 count = static_cast<u32>(hd::popcount(told));
        const u32 directories = team_.ballot(found.is_told && found.is_directory);
        const u32 first = static_cast<u32>(hd::countr_zero(told));
        const u32 user = team_.broadcast(found.attributes.user, first);
        const u32 group = team_.broadcast(found.attributes.group, first);
        const bool fits = !found.is_told || ShortRecord::fits(found.attributes, user, group);
        const bool is_short = team_.ballot(!fits) == 0;
        const u32 mine = found.is_told ? core::padded(found.name_length) / 8 : 0;
        u32 name = bundle_words + count * (is_short ? short_record_words : record_words);
        u32 words = name;
        for (u32 left = told; left != 0; left &= left - 1) {
            const u32 lane = static_cast<u32>(hd::countr_zero(left));
            const u32 its = team_.broadcast(mine, lane);
            if (lane < team_.lane()) name += its;
            words += its;
        }
        const u64 before = once(team_, [&] {
            return relaxed_add(ref_.state->written, (u64{1} << written_shift) + words);
        });
        const u64 begin = written_words(before);
        u64* output = ref_.output + begin;
        once(team_, [&] {
            ref_.bundles[written_bundles(before)] = {static_cast<u32>(begin),
                                                     static_cast<u16>(count),
                                                     static_cast<u16>(hd::popcount(directories))};
            *reinterpret_cast<ScanBundle*>(output) = {
                above, depth, count, words, is_short ? 1u : 0u, user, group, 0};
        });
        if (!found.is_told) return;
        if (is_short) {
            auto* records = reinterpret_cast<ShortRecord*>(output + bundle_words);
            records[rank_in(team_, told)].set(found.attributes, name << 8 | found.name_length);
        } else {
            auto* records = reinterpret_cast<ScanRecord*>(output + bundle_words);
            auto& record = records[rank_in(team_, told)];
            record.set(found.attributes, name << 8 | found.name_length);
            record.directory = directory;
        }
        for (u32 i = 0; i < mine; ++i)
            output[name + i] = leaf.heap[found.name_offset / 8 + i];
    }

 private:
    const Team team_;
    const ScanRef& ref_;
};

}  // namespace warren::bulk
