// SPDX-License-Identifier: Apache-2.0
// Processes the output of a scan on the host: calls the visitor from many threads, or sums up the
// usage of directories.
//
// In the order of bundles, a directory precedes its entries. If there are many directories of the
// same depth, they are visited in parallel.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "fs/bulk/scan/scan_call.hpp"
#include "fs/bulk/scan/scan_output.hpp"

namespace warren::bulk {

inline constexpr u64 visits_shared_min = 1024;  // waking threads takes longer than fewer visits
inline constexpr u64 bundles_at_once = 32;

/// Calls `visit` for the entries that runs have found: first for directories, each after its
/// parent, so that nothing is visited below a directory into which `visit` declined to descend;
/// then for files.
class ScanVisits {
 public:
    explicit ScanVisits(const ScanCall& call);

    void take(const ScanOutput& output);
    /// After take(), if some of the output never arrives: fills `visited`.
    void note_visited(const ScanOutput& output, VisitedEntries& visited) const;

 private:
    /// A directory that the scan has found.
    struct Directory {
        Handle handle;
        bool is_open = false;  // its entries are visited
    };
    /// The location of a record.
    struct Place {
        std::size_t bundle;
        u32 record;
    };

    void visit_directories(const ScanOutput& output);
    void visit_directory(const ScanOutput& output, const Place& place);
    void visit_files(const ScanOutput& output, std::size_t bundle) const;
    Scanned begin_visits(const ScanOutput& output, std::size_t bundle) const;
    template <class Record>
    bool visit(const ScanOutput& output, std::size_t bundle, const Record& record,
               Scanned& found) const;

    const ScanCall& call_;
    std::vector<Directory> directories_;  // by the number that the scan gave them
};

inline ScanVisits::ScanVisits(const ScanCall& call) : call_(call) {
    directories_.push_back({call.root, true});
}

/// The fields that all entries of a bundle share.
inline Scanned ScanVisits::begin_visits(const ScanOutput& output, std::size_t bundle) const {
    Scanned found;
    found.directory = directories_[output.bundle(bundle).above].handle;
    found.depth = output.bundle(bundle).depth;
    found.attributes.user = output.bundle(bundle).user;
    found.attributes.group = output.bundle(bundle).group;
    return found;
}

template <class Record>
bool ScanVisits::visit(const ScanOutput& output, std::size_t bundle, const Record& record,
                       Scanned& found) const {
    found.name = output.name(bundle, record);
    record.tell(found.directory, found.attributes);
    return (*call_.visit)(found);
}

inline void ScanVisits::visit_directory(const ScanOutput& output, const Place& place) {
    if (!directories_[output.bundle(place.bundle).above].is_open) return;
    const ScanRecord& record = output.records(place.bundle)[place.record];
    Scanned found = begin_visits(output, place.bundle);
    const bool descends = visit(output, place.bundle, record, found);
    if (record.directory >= directories_.size()) return;
    directories_[record.directory] = {record.handle(), descends};
}

inline void ScanVisits::visit_directories(const ScanOutput& output) {
    std::vector<std::vector<Place>> depths;
    for (std::size_t bundle = 0; bundle < output.bundles.size(); ++bundle) {
        if (output.bundles[bundle].directories == 0 || !output.await(bundle)) continue;
        const u32 depth = output.bundle(bundle).depth;
        const auto records = output.records(bundle);
        for (u32 i = 0; i < records.size(); ++i) {
            if (!records[i].is_directory()) continue;
            if (depths.size() <= depth) depths.resize(depth + 1);
            depths[depth].push_back({bundle, i});
        }
    }
    for (const auto& places : depths) {
        if (places.size() < visits_shared_min) {
            for (const Place& place : places)
                visit_directory(output, place);
        } else {
            call_.for_each(places.size(), [&](u64 i) { visit_directory(output, places[i]); });
        }
    }
}

inline void ScanVisits::visit_files(const ScanOutput& output, std::size_t bundle) const {
    if (output.bundles[bundle].directories == output.bundles[bundle].records) return;
    if (!output.await(bundle) || !directories_[output.bundle(bundle).above].is_open) return;
    Scanned found = begin_visits(output, bundle);
    output.for_each_record(bundle, [&](const auto& record) {
        if (!record.is_directory()) static_cast<void>(visit(output, bundle, record, found));
    });
}

inline void ScanVisits::take(const ScanOutput& output) {
    directories_.resize(std::max<std::size_t>(directories_.size(), output.directory_count));
    visit_directories(output);
    const u64 count = output.bundles.size();
    if (count < visits_shared_min) {
        for (std::size_t i = 0; i < count; ++i)
            visit_files(output, i);
        return;
    }
    // In the order in which bundles arrive, whichever thread takes the next ones.
    std::atomic<u64> next{0};
    call_.for_each((count + bundles_at_once - 1) / bundles_at_once, [&](u64) {
        const u64 begin = next.fetch_add(bundles_at_once, std::memory_order_relaxed);
        for (u64 i = begin; i < std::min(begin + bundles_at_once, count); ++i)
            visit_files(output, i);
    });
}

inline void ScanVisits::note_visited(const ScanOutput& output, VisitedEntries& visited) const {
    for (std::size_t i = 0; i < output.bundles.size(); ++i) {
        if (!output.await(i)) continue;
        const Directory& in = directories_[output.bundle(i).above];
        if (!in.is_open) continue;
        output.for_each_record(i, [&](const auto& record) {
            // Only directories have an answer that matters, those at the depth limit excepted.
            bool descends = false;
            if constexpr (requires { record.directory; }) {
                descends = record.is_directory() && record.directory < directories_.size() &&
                           directories_[record.directory].is_open;
            }
            visited.add(in.handle, output.name(i, record), descends);
        });
    }
    visited.set_interrupted();
}

/// Describes the directory with sum `index` in the result of usage().
inline void note_usage(std::vector<DirectoryUsage>& answer, u32 index, Handle directory, u32 above,
                       u32 depth, std::string_view name) {
    if (answer.size() <= index) answer.resize(index + 1);
    DirectoryUsage& usage = answer[index];
    usage.name = name;
    usage.directory = directory;
    usage.above = above;
    usage.depth = depth;
}

/// Adds the directories that a measuring run has found to the result of usage(), without their
/// sums.
inline void take_usage(const ScanOutput& output, std::vector<DirectoryUsage>& answer) {
    if (!output.await_all()) return;
    for (std::size_t i = 0; i < output.bundles.size(); ++i) {
        const ScanBundle& bundle = output.bundle(i);
        for (const ScanRecord& record : output.records(i)) {
            note_usage(answer, record.directory, record.handle(), bundle.above, bundle.depth,
                       output.name(i, record));
        }
    }
}

/// Adds the sums of a scan to the result, whose first element already has the root's own usage.
inline void add_sums(std::span<const ScanSum> sums, std::vector<DirectoryUsage>& answer) {
    for (std::size_t i = 0; i < std::min(sums.size(), answer.size()); ++i) {
        answer[i].entries += sums[i].entries;
        answer[i].blocks += sums[i].blocks;
        answer[i].bytes += sums[i].bytes;
    }
}

}  // namespace warren::bulk
