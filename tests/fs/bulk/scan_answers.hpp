// SPDX-License-Identifier: Apache-2.0
// What each implementation of a scan must answer: the same as a walk that looks up name by name.
// `Scan` is an OutputScan or a DeviceScan; the volume's own scans are tested as well.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "fs/bulk/scan/scan_answer.hpp"
#include "tests/fs/bulk/removal_trees.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/open_inside.hpp"

namespace warren {

using bulk::ScanPurpose;

/// A volume on a disk in memory, with access to its implementation.
class InsideVolume {
 public:
    explicit InsideVolume(Disk& disk, const OpenOptions& options = {.workers = 2},
                          u64 hash_mask = ~u64{0}) {
        auto made = open_inside(disk, options, hash_mask);
        inside_ = made.get();
        volume_ = std::make_unique<Volume>(std::move(made));
    }

    Volume& operator*() { return *volume_; }
    Volume* operator->() { return volume_.get(); }
    VolumeImplementation& inside() { return *inside_; }

 private:
    VolumeImplementation* inside_ = nullptr;
    std::unique_ptr<Volume> volume_;
};

/// A row that a visitor has seen: directory, name, depth, and all attributes.
using ScanRow = std::tuple<u64, std::string, u32, std::vector<u64>>;

class ScanRows {
 public:
    bool operator()(const Scanned& found) {
        const Attributes& at = found.attributes;
        const std::lock_guard lock(mutex_);
        const auto number = [](i64 time) { return static_cast<u64>(time); };
        seen.emplace(found.directory.inode, std::string(found.name), found.depth,
                     std::vector<u64>{at.handle.inode, at.handle.generation, at.mode, at.links,
                                      at.user, at.group, at.device, at.size, at.blocks, at.parent,
                                      number(at.accessed), number(at.modified), number(at.changed),
                                      number(at.born)});
        return true;
    }
    std::multiset<ScanRow> seen;

 private:
    std::mutex mutex_;
};

inline void for_each_in_turn(u64 count, const std::function<void(u64)>& body) {
    for (u64 i = 0; i < count; ++i)
        body(i);
}

inline bool is_directory(const Attributes& of) {
    return format::is_directory(of.mode);
}

/// Calls `take` for `root` and for all entries below it, and descends where it returns true. Looks
/// up each name without permission checks.
template <class Take>
void walk_each(Volume& volume, Handle root, const Take& take) {
    Scanned first;
    first.directory = root;
    first.attributes = *volume.attributes(root);
    take(first);
    std::vector<std::pair<Handle, u32>> left{{root, 0}};
    while (!left.empty()) {
        const auto [directory, depth] = left.back();
        left.pop_back();
        for (const auto& [name, inode] : list_names(volume, directory)) {
            const Result<Attributes> found = volume.lookup(anybody, directory, name);
            ASSERT_TRUE(found) << name;
            const bool descends = take(Scanned{directory, name, depth + 1, *found});
            if (descends && is_directory(*found)) left.emplace_back(found->handle, depth + 1);
        }
    }
}

/// The rows that a scan with this filter must see.
inline std::multiset<ScanRow> walk(Volume& volume, Handle root, const ScanFilter& filter) {
    ops::FileFilter files;
    EXPECT_EQ(ops::set_filter(files, filter), Errc::ok);
    ScanRows rows;
    walk_each(volume, root, [&](const Scanned& found) {
        const Attributes& at = found.attributes;
        const bool is_wanted =
            files.wants_name(found.name.data(), static_cast<u32>(found.name.size()),
                             format::entry_type(at.mode)) &&
            files.wants_file(at.size, at.modified);
        if (is_directory(at) || is_wanted) rows(found);
        return found.depth < filter.depth_max;
    });
    return rows.seen;
}

inline std::multiset<ScanRow> rows_of(InsideVolume& volume, const Caller& caller, Handle root,
                                      const ScanFilter& filter, Errc wanted = Errc::ok) {
    ScanRows rows;
    EXPECT_EQ(volume->scan(caller, root, std::ref(rows), filter), wanted);
    return rows.seen;
}

/// The same rows as rows_of(), produced by `scan`.
template <class Scan>
std::multiset<ScanRow> scan_by(Scan& scan, InsideVolume& volume, const Caller& caller, Handle root,
                               const ScanFilter& filter, Errc wanted = Errc::ok) {
    ScanRows rows;
    const Result<Attributes> attributes = volume->attributes(root);
    EXPECT_TRUE(attributes);
    Scanned first;
    first.directory = root;
    first.attributes = *attributes;
    rows(first);
    auto plan = bulk::plan_scan(ScanPurpose::visit, credentials_of(caller));
    EXPECT_EQ(ops::set_filter(plan.files, filter), Errc::ok);
    const std::function<bool(const Scanned&)> visit = std::ref(rows);
    ScanCall call{plan, root, &visit};
    call.for_each = for_each_in_turn;
    bulk::ScanVisits visits(call);
    EXPECT_EQ(scan.scan(plan, root, [&](const auto& output) { visits.take(output); }), wanted);
    return rows.seen;
}

using Sums = std::map<u64, std::tuple<u64, std::string, u32, u64, u64, u64>>;

inline Sums sums_of(const std::vector<DirectoryUsage>& usages) {
    Sums sums;
    for (const DirectoryUsage& one : usages) {
        sums[one.directory.inode] = {usages[one.above].directory.inode,
                                     one.name,
                                     one.depth,
                                     one.entries,
                                     one.blocks,
                                     one.bytes};
    }
    return sums;
}

/// The result that usage() must give.
inline Sums sums_by_walk(Volume& volume, Handle root, const UsageOptions& options) {
    std::vector<DirectoryUsage> answer;
    std::map<u64, u32> above;  // by directory: where its entries are counted
    std::set<u64> linked;
    walk_each(volume, root, [&](const Scanned& found) {
        const Attributes& at = found.attributes;
        const u64 number = at.handle.inode;
        const u32 in = found.depth == 0 ? 0 : above.at(found.directory.inode);
        u32 own = in;
        if (is_directory(at) && found.depth <= options.depth_max) {
            own = static_cast<u32>(answer.size());
            DirectoryUsage& usage = answer.emplace_back();
            usage.directory = at.handle;
            usage.above = in;
            usage.depth = found.depth;
            usage.name = found.name;
        }
        if (is_directory(at)) above[number] = own;
        const bool is_new = is_directory(at) || at.links == 1 || options.counts_links ||
                            linked.insert(number).second;
        for (u32 up = own;; up = answer[up].above) {
            ++answer[up].entries;
            answer[up].blocks += is_new ? at.blocks : 0;
            answer[up].bytes += is_new ? ops::counted_bytes(at.mode, at.size) : 0;
            if (up == 0) return true;
        }
    });
    return sums_of(answer);
}

template <class Scan>
Sums measure_by(Scan& scan, InsideVolume& volume, Handle root, const UsageOptions& options) {
    auto plan = bulk::plan_scan(ScanPurpose::measure, credentials_of(anybody));
    plan.sums_depth = options.depth_max;
    plan.counts_links = options.counts_links;
    const Result<Attributes> attributes = volume->attributes(root);
    std::vector<DirectoryUsage> answer(1);
    answer[0].directory = root;
    answer[0].entries = 1;
    answer[0].blocks = attributes->blocks;
    answer[0].bytes = attributes->size;
    EXPECT_EQ(scan.scan(plan, root, [&](const auto& o) { bulk::take_usage(o, answer); }), Errc::ok);
    bulk::add_sums(scan.sums(), answer);
    for (std::size_t i = answer.size(); i-- > 1;) {
        EXPECT_LT(answer[i].above, i);
        answer[answer[i].above].entries += answer[i].entries;
        answer[answer[i].above].blocks += answer[i].blocks;
        answer[answer[i].above].bytes += answer[i].bytes;
    }
    return sums_of(answer);
}

inline std::vector<ScanFilter> filters() {
    return {{},
            {.depth_max = 1},
            {.depth_max = 2},
            {.pattern = "*7"},
            {.pattern = "[A-N]*1?", .folds_case = true},
            {.types = 1 << 10},
            {.size_min = 4096},
            {.pattern = "n*", .size_max = 0}};
}

/// All filters and sums of a whole volume.
template <class Scan>
void expect_same_answers(Scan& scan, InsideVolume& volume) {
    const Handle root = volume->root();
    for (const ScanFilter& filter : filters()) {
        const auto found = scan_by(scan, volume, anybody, root, filter);
        const auto wanted = walk(*volume, root, filter);
        EXPECT_TRUE(wanted == found) << found.size() << " of " << wanted.size() << " for '"
                                     << filter.pattern << "' depth " << filter.depth_max;
        EXPECT_TRUE(wanted == rows_of(volume, anybody, root, filter)) << filter.pattern;
    }
    for (const UsageOptions& options :
         {UsageOptions{}, {.depth_max = 1}, {.depth_max = ~0u, .counts_links = true}}) {
        const Sums wanted = sums_by_walk(*volume, root, options);
        std::vector<DirectoryUsage> usages;
        EXPECT_EQ(volume->usage(anybody, root, options, usages), Errc::ok);
        for (const Sums& found : {measure_by(scan, volume, root, options), sums_of(usages)}) {
            // Across several directories, a file with several names may be counted in any of them.
            if (options.depth_max == 0 || options.counts_links) {
                EXPECT_TRUE(found == wanted) << options.depth_max;
            }
            EXPECT_EQ(found.size(), wanted.size());
            EXPECT_EQ(found.at(root.inode), wanted.at(root.inode));
        }
    }
}

/// Draws the modes of directories from `random`; users 1 and 2 own some inodes.
inline void spread_owners(InsideVolume& volume, Random& random) {
    std::map<std::string, Handle> all;  // a scan has an order of chance
    std::mutex mutex;
    const auto collect = [&](const Scanned& found) {
        const std::lock_guard lock(mutex);
        if (found.depth > 0) all.emplace(found.name, found.attributes.handle);
        return true;
    };
    ASSERT_EQ(volume->scan(anybody, volume->root(), collect), Errc::ok);
    constexpr u32 modes[] = {0777, 0755, 0700, 01777, 0770, 0555};
    for (const auto& [name, handle] : all) {
        AttributeChange change;
        change.which = AttributeChange::user | AttributeChange::group;
        change.new_user = static_cast<u32>(random.below(10) == 0 ? 2 : 1);
        change.new_group = static_cast<u32>(5 + random.below(2));
        const bool is_directory = format::is_directory(volume->attributes(handle)->mode);
        if (is_directory && random.below(6) == 0) {
            change.which |= AttributeChange::mode;
            change.new_mode = modes[random.below(std::size(modes))];
        }
        ASSERT_TRUE(volume->set_attributes(anybody, handle, change));
    }
}

/// What a caller may do with a whole tree.
struct Allowed {
    bool scan = true;
    bool as_rm = true;
    bool whole = true;
};

inline bool may(const Caller& caller, const Attributes& of, u32 wanted) {
    const bool is_in_group =
        of.group == caller.group || std::ranges::count(caller.groups, of.group);
    const u32 shift = of.user == caller.user ? 6 : is_in_group ? 3 : 0;
    return caller.user == 0 || (of.mode >> shift & wanted) == wanted;
}

/// As the modes and owners imply.
inline Allowed allowed_to(Volume& volume, const Caller& caller, Handle root) {
    Allowed allowed;
    std::map<u64, Attributes> directories;
    walk_each(volume, root, [&](const Scanned& found) {
        const Attributes& at = found.attributes;
        const auto binds = [&](const Attributes& in) {
            return (in.mode & format::mode_sticky) != 0 && caller.user != 0 &&
                   in.user != caller.user;
        };
        if (is_directory(at)) {
            directories[at.handle.inode] = at;
            allowed.whole = allowed.whole && may(caller, at, 7) && !binds(at);
        }
        if (found.depth == 0) return true;
        // A directory that still has a name.
        const Attributes& in = directories.at(found.directory.inode);
        allowed.scan = allowed.scan && may(caller, in, 5);
        allowed.as_rm =
            allowed.as_rm && may(caller, in, 7) && !(binds(in) && at.user != caller.user);
        return true;
    });
    return allowed;
}

/// Users with and without permission to see and remove trees.
template <class MakeScan>
void expect_same_refusals(u64 seeds, const MakeScan& make_scan) {
    u32 refused = 0;
    u32 allowed = 0;
    for (u64 seed = 1; seed <= seeds; ++seed) {
        const auto disk = make_memory_disk(64 * mib);
        InsideVolume volume(*disk);
        build_random(*volume, seed, 60);
        Random random(seed);
        spread_owners(volume, random);
        const u32 groups[] = {5, 6};
        const Caller callers[] = {{.user = 1, .group = 5},
                                  {.user = 2, .group = 6},
                                  {.user = 3, .group = 7, .groups = groups},
                                  {.user = 0}};
        const auto doomed = volume->lookup(anybody, volume->root(), "doomed");
        ASSERT_TRUE(doomed);
        const auto made = make_scan(volume, seed);
        auto& scan = *made;
        for (const Caller& caller : callers) {
            const core::Credentials who = credentials_of(caller);
            const Allowed allowed_all = allowed_to(*volume, caller, doomed->handle);
            const Errc seen = allowed_all.scan ? Errc::ok : Errc::access;
            rows_of(volume, caller, doomed->handle, {}, seen);
            const Errc found = scan.scan(bulk::plan_scan(ScanPurpose::visit, who), doomed->handle,
                                         [](const auto&) {});
            EXPECT_EQ(seen, found) << seed << " user " << caller.user;
            if (caller.user == 0) continue;
            for (const auto check : {core::TreeCheck::as_rm, core::TreeCheck::whole}) {
                const bool is_allowed =
                    check == core::TreeCheck::as_rm ? allowed_all.as_rm : allowed_all.whole;
                const Errc by_threads = volume.inside().check_removable(who, doomed->handle, check);
                auto plan = bulk::plan_scan(ScanPurpose::removal, who);
                plan.tree_check = check;
                const Errc removable = scan.scan(plan, doomed->handle, [](const auto&) {});
                // Which of several reasons is met first is a matter of chance.
                for (const Errc code : {by_threads, removable}) {
                    EXPECT_EQ(code == Errc::ok, is_allowed) << seed << " user " << caller.user;
                    const bool is_refusal = code == Errc::access || code == Errc::not_permitted;
                    EXPECT_TRUE(code == Errc::ok || is_refusal) << static_cast<int>(code);
                }
                ++(is_allowed ? allowed : refused);
            }
        }
    }
    EXPECT_GT(refused, seeds / 4);
    EXPECT_GT(allowed, seeds / 4);
}

}  // namespace warren
