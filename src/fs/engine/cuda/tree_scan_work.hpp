// SPDX-License-Identifier: Apache-2.0
// What the workers of a scan share, in memory that all of them reach: directories met, ranges of
// their keys that are still to be listed, what was found. Host and workers alternate: a run ends
// when all is listed or when only the host can help (blocks to bring, room to make); what is left
// over then begins the next run.
//
// Invariant: a range of keys belongs to one task, and a directory's ranges cover it without
// overlap; so each name that stays is met once, however the tree changes meanwhile.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "fs/core/permission.hpp"
#include "fs/engine/cuda/bulk_queue.hpp"
#include "fs/ops/scan_filter.hpp"
#include "fs/ops/tree_task.hpp"

namespace warren::cuda_engine {

enum class ScanPurpose : u8 {
    visit,    // tells of directories, and of the files that the filter wants
    measure,  // adds up what is met
    removal,  // finds out whether the caller may remove everything
};

/// What a scan is asked to do, the same for all workers.
struct ScanPlan {
    ScanPurpose purpose = ScanPurpose::visit;
    bool counts_links = false;
    core::TreeCheck tree_check = core::TreeCheck::as_rm;  // removal
    u32 permission = 0;        // needed in every directory that has names
    u32 sums_depth = 0;        // measure: directories below it have no sum of their own
    core::Credentials caller;  // its groups are where the workers can read them
    ops::FileFilter files;
};

/// A part of a directory's keys: [from, end).
struct KeyRange {
    u64 from;
    u64 end;
};

/// A directory that was met; all but `is_allowed` is written once.
struct ScanDirectory {
    u64 number;
    u32 generation;
    u32 depth;
    u32 sum;         // which of the sums it adds to
    u32 is_allowed;  // the caller may list it
    KeyRange keys;   // of the task that begins with all of it
};

/// What is added up for a directory.
struct ScanSum {
    u64 entries;
    u64 blocks;
    u64 bytes;
};

/// What one look at a leaf has found: this, its records, their names.
struct ScanBundle {
    u32 above;  // index of the directory, or of its sum
    u32 depth;  // of the entries
    u32 count;
    u32 words;     // of all of it, each 8 bytes
    u32 is_short;  // its records are short, and all its entries belong to these:
    u32 user;
    u32 group;
    u32 zero;
};

/// Notes in a record what every kind of record tells, each in a field of its own width. One by one:
/// this and the next are most of what a visit takes.
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
/// And the way back.
template <class Record>
void tell_attributes(const Record& record, Attributes& of) {
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

/// An entry, in few bytes because all of them cross the bus: the parent of a directory is the one
/// that it was found in.
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
    u32 directory;  // its index, or that of its sum
    u32 name;       // words from the bundle's start << 8 | bytes

    WARREN_HD void set(const Attributes& of, u32 name_of_record) {
        note_attributes(*this, of, name_of_record);
        user = of.user;
        group = of.group;
        device = of.device;
    }
    Handle handle() const { return {inode, generation}; }
    bool is_directory() const { return (mode & format::type_mask) == format::type_directory; }
    /// Says what they are, as they were in the directory `in`.
    void tell(Handle in, Attributes& of) const {
        tell_attributes(*this, of);
        of.user = user;
        of.group = group;
        of.device = device;
        of.parent = is_directory() ? in.inode : 0;
    }
};

/// An entry as most are, in still fewer bytes: no directory, no device, and of its bundle's owners.
struct ShortRecord {
    u64 inode;
    u32 generation;
    u32 name;  // as above
    u64 size;
    u32 blocks;
    u16 mode;
    u16 links;
    i64 accessed;
    i64 modified;
    i64 changed;
    i64 born;

    /// Whether it can tell of an entry in a bundle of these owners.
    static WARREN_HD bool fits(const Attributes& of, u32 user, u32 group) {
        const bool is_directory = (of.mode & format::type_mask) == format::type_directory;
        return !is_directory && of.device == 0 && of.user == user && of.group == group &&
               of.mode <= 0xffff && of.links <= 0xffff && of.blocks <= 0xffffffff;
    }
    WARREN_HD void set(const Attributes& of, u32 name_of_record) {
        note_attributes(*this, of, name_of_record);
    }
    /// Says what is not the same for all of the bundle.
    void tell(Attributes& of) const { tell_attributes(*this, of); }
};
inline constexpr u32 bundle_words = sizeof(ScanBundle) / 8;
inline constexpr u32 record_words = sizeof(ScanRecord) / 8;
inline constexpr u32 short_record_words = sizeof(ShortRecord) / 8;
static_assert(sizeof(ScanRecord) % 8 == 0 && sizeof(ShortRecord) == 64);

/// What can be known of a bundle before its words have come.
struct BundlePlace {
    u32 begin;  // in words of the output; rises from bundle to bundle
    u16 records;
    u16 directories;  // among the records
};

/// The copy of a run's output to the host, while it is under way.
class ScanArrival {
 public:
    virtual ~ScanArrival() = default;
    /// Waits until so many words have come; false if they never will. Called by many threads.
    virtual bool wait_for(u64 words) const = 0;
};

/// What a run has found, in memory of the host.
struct ScanOutput {
    const u64* words = nullptr;
    u64 word_count = 0;
    std::span<const BundlePlace> bundles = {};  // a bundle's directory lies before it
    u32 directory_count = 0;                    // met by all runs so far
    const ScanArrival* arrival = nullptr;       // null: all of it is there

    /// Waits for the words of a bundle, or for all; what is below is for afterwards.
    bool await(std::size_t index) const {
        if (arrival == nullptr) return true;
        return arrival->wait_for(index + 1 < bundles.size() ? bundles[index + 1].begin
                                                            : word_count);
    }
    bool await_all() const { return arrival == nullptr || arrival->wait_for(word_count); }

    const ScanBundle& bundle(std::size_t index) const {
        return *reinterpret_cast<const ScanBundle*>(words + bundles[index].begin);
    }
    /// The records of a bundle; `Record` is ScanRecord, or ShortRecord if it is_short.
    template <class Record = ScanRecord>
    std::span<const Record> records(std::size_t index) const {
        const auto* first =
            reinterpret_cast<const Record*>(words + bundles[index].begin + bundle_words);
        return {first, bundle(index).count};
    }
    template <class Record>
    std::string_view name(std::size_t index, const Record& record) const {
        const u64* at = words + bundles[index].begin + (record.name >> 8);
        return {reinterpret_cast<const char*>(at), record.name & 0xff};
    }
};

/// The most that one leaf adds to the output, in words and in bundles.
inline constexpr u64 leaf_output_words =
    u64{format::leaf_entries_max} * (record_words + bundle_words) + format::leaf_heap_bytes / 8;
inline constexpr u64 leaf_bundles = format::leaf_entries_max;

/// The words that workers change. `written`: bundles << 40 | words.
struct ScanState {
    BulkQueueState queue;
    alignas(128) u64 written;
    alignas(128) u32 directory_count;
    u32 range_count;
    u32 sum_count;
    alignas(128) u32 spilled_count;
    u32 wanted_count;
    u32 damaged_count;
    u32 error;          // an Errc
    u64 inodes_wanted;  // more directories than there is room for: begin again with so many
    u64 frames_wanted;  // the same of frames in `linked`
};

inline constexpr u32 written_shift = 40;

/// A reference to all of it.
struct ScanRef {
    ScanState* state;
    BulkQueue queue;
    ScanDirectory* directories;
    ScanSum* sums;
    KeyRange* ranges;
    ops::TreeTask* spilled;  // tasks that the next run begins with
    u64* wanted;             // places of blocks that are not in memory
    u64* output;
    BundlePlace* bundles;
    u64* linked;  // bit per inode number: a file with several names that was counted

    u64 directory_max;
    u64 range_max;
    u64 spilled_max;
    u64 wanted_max;
    u64 output_max;  // words
    u64 bundle_max;
    u64 linked_frames;
    u64 workers;
};

/// A task is a directory, or a range of its keys.
struct ScanTask {
    static constexpr u64 no_range = ~u64{0};

    static WARREN_HD ops::TreeTask make(u32 directory, u64 range = no_range) {
        return {u64{directory} + 1, range};
    }
    static WARREN_HD u32 directory(const ops::TreeTask& task) {
        return static_cast<u32>(task.subject - 1);
    }
    static WARREN_HD KeyRange& keys(const ScanRef& ref, const ops::TreeTask& task) {
        return task.part == no_range ? ref.directories[directory(task)].keys
                                     : ref.ranges[task.part];
    }
};

/// Notes the first error. One lane.
WARREN_HD inline void fail_scan(const ScanRef& ref, Errc code) {
    u32 none = 0;
    device_atomic<u32>(ref.state->error)
        .compare_exchange_strong(none, static_cast<u32>(code), hd::memory_order_relaxed);
}

/// Keeps a task for the next run. One lane.
WARREN_HD inline void spill_scan(const ScanRef& ref, const ops::TreeTask& task) {
    const u32 index =
        device_atomic<u32>(ref.state->spilled_count).fetch_add(1, hd::memory_order_relaxed);
    WARREN_CHECK(index < ref.spilled_max);
    ref.spilled[index] = task;
}

/// Asks for a block. One lane.
WARREN_HD inline void want_block(const ScanRef& ref, u64 place) {
    const u32 index =
        device_atomic<u32>(ref.state->wanted_count).fetch_add(1, hd::memory_order_relaxed);
    if (index < ref.wanted_max) ref.wanted[index] = place;
}

/// What is needed where nothing is told of files. One lane.
WARREN_HD inline Attributes read_few(const core::InodeRef& inode) {
    const format::Inode& at = *inode.at;
    Attributes few;
    few.handle = inode.handle();
    few.mode = relaxed_load(at.mode);
    few.links = relaxed_load(at.links);
    few.user = relaxed_load(at.user);
    few.size = relaxed_load(at.size);
    few.blocks = relaxed_load(at.blocks);
    few.parent = relaxed_load(at.parent);
    return few;
}

/// Gets ready for a scan of the directory `root`. One lane.
WARREN_HD inline void start_scan(const ScanRef& ref, Handle root) {
    ScanState& state = *ref.state;
    state.directory_count = 1;
    state.range_count = 0;
    state.sum_count = 1;
    state.error = 0;
    state.inodes_wanted = 0;
    state.frames_wanted = 0;
    ref.directories[0] = {root.inode, root.generation, 0, 0, 0, {0, ~u64{0}}};
    ref.sums[0] = {};
    ref.spilled[0] = ScanTask::make(0);
    state.spilled_count = 1;
}

/// Gets ready for a run. One lane; seed_scan() follows, then begin_over() of the queue.
WARREN_HD inline void start_run(const ScanRef& ref) {
    ScanState& state = *ref.state;
    ref.queue.reset();
    state.written = 0;
    state.spilled_count = 0;
    state.wanted_count = 0;
    state.damaged_count = 0;
}

/// Gives task `index` of those that a run begins with to the workers. One lane.
WARREN_HD inline void seed_scan(const ScanRef& ref, u64 index, const ops::TreeTask& task) {
    // Nobody takes tasks yet, so they must not fill the ring.
    if (index < ref.queue.capacity / 2) {
        ref.queue.seed(task);
    } else {
        spill_scan(ref, task);
    }
}

}  // namespace warren::cuda_engine
