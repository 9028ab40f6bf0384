// SPDX-License-Identifier: Apache-2.0
// What a scan must answer, whoever runs it: the same as the scan of the CPU engine. `Scan` is a
// HostScan or a DeviceScan.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "fs/engine/cuda/tree_scan_answer.hpp"
#include "fs/volume/tree_scanner.hpp"
#include "tests/fs/engine/removal_trees.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/open_inside.hpp"

namespace warren {

using cuda_engine::ScanPurpose;

/// A volume on a disk in memory, with what is behind it.
class InsideVolume {
 public:
    explicit InsideVolume(Disk& disk) {
        auto made = open_inside(disk, {.workers = 2});
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

/// What a visitor has seen: directory, name, depth, and all attributes.
using Sight = std::tuple<u64, std::string, u32, std::vector<u64>>;

class Sights {
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
    std::multiset<Sight> seen;

 private:
    std::mutex mutex_;
};

inline void for_each_in_turn(u64 count, const std::function<void(u64)>& body) {
    for (u64 i = 0; i < count; ++i)
        body(i);
}

inline cuda_engine::ScanPlan plan_for(cuda_engine::ScanPurpose purpose, const Caller& caller) {
    cuda_engine::ScanPlan plan;
    plan.purpose = purpose;
    plan.caller = credentials_of(caller);
    plan.permission = core::may_read | core::may_execute;
    if (purpose == cuda_engine::ScanPurpose::removal) plan.permission |= core::may_write;
    return plan;
}

inline std::multiset<Sight> sights_of(InsideVolume& volume, const Caller& caller, Handle root,
                                      const ScanFilter& filter, Errc wanted = Errc::ok) {
    Sights sights;
    EXPECT_EQ(volume->scan(caller, root, std::ref(sights), filter), wanted);
    return sights.seen;
}

/// As sights_of(), by `scan`.
template <class Scan>
std::multiset<Sight> scan_by(Scan& scan, InsideVolume& volume, const Caller& caller, Handle root,
                             const ScanFilter& filter, Errc wanted = Errc::ok) {
    Sights sights;
    const Result<Attributes> attributes = volume->attributes(root);
    EXPECT_TRUE(attributes);
    Scanned first;
    first.directory = root;
    first.attributes = *attributes;
    sights(first);
    auto plan = plan_for(ScanPurpose::visit, caller);
    EXPECT_EQ(ops::set_filter(plan.files, filter), Errc::ok);
    const std::function<bool(const Scanned&)> visit = std::ref(sights);
    const ScanCall call{plan.caller, *attributes, plan.files, visit, for_each_in_turn};
    cuda_engine::ScanVisits visits(call);
    EXPECT_EQ(scan.scan(plan, root, [&](const auto& output) { visits.take(output); }), wanted);
    return sights.seen;
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

template <class Scan>
Sums measure_by(Scan& scan, InsideVolume& volume, Handle root, const UsageOptions& options) {
    auto plan = plan_for(ScanPurpose::measure, anybody);
    plan.sums_depth = options.depth_max;
    plan.counts_links = options.counts_links;
    const Result<Attributes> attributes = volume->attributes(root);
    std::vector<DirectoryUsage> answer(1);
    answer[0].directory = root;
    answer[0].entries = 1;
    answer[0].blocks = attributes->blocks;
    answer[0].bytes = attributes->size;
    EXPECT_EQ(scan.scan(plan, root, [&](const auto& o) { cuda_engine::take_usage(o, answer); }),
              Errc::ok);
    cuda_engine::add_sums(scan.sums(), answer);
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
        const auto wanted = sights_of(volume, anybody, root, filter);
        const auto found = scan_by(scan, volume, anybody, root, filter);
        EXPECT_TRUE(wanted == found) << found.size() << " of " << wanted.size() << " for '"
                                     << filter.pattern << "' depth " << filter.depth_max;
    }
    for (const UsageOptions& options :
         {UsageOptions{}, {.depth_max = 1}, {.depth_max = ~0u, .counts_links = true}}) {
        std::vector<DirectoryUsage> wanted;
        EXPECT_EQ(volume->usage(anybody, root, options, wanted), Errc::ok);
        const Sums found = measure_by(scan, volume, root, options);
        const Sums all = sums_of(wanted);
        // With several directories a file with several names may be counted in any of them.
        if (options.depth_max == 0 || options.counts_links) {
            EXPECT_TRUE(found == all) << options.depth_max;
        }
        EXPECT_EQ(found.size(), all.size());
        EXPECT_EQ(found.at(root.inode), all.at(root.inode));
    }
}

/// Modes of directories as `random` has it; users 1 and 2 own things.
inline void spread_owners(InsideVolume& volume, Random& random) {
    std::vector<Handle> all;
    std::mutex mutex;
    const auto collect = [&](const Scanned& found) {
        const std::lock_guard lock(mutex);
        if (found.depth > 0) all.push_back(found.attributes.handle);
        return true;
    };
    ASSERT_EQ(volume->scan(anybody, volume->root(), collect), Errc::ok);
    constexpr u32 modes[] = {0777, 0755, 0700, 01777, 0770, 0555};
    for (const Handle handle : all) {
        AttributeChange change;
        change.which = AttributeChange::user | AttributeChange::group;
        change.new_user = static_cast<u32>(random.below(10) == 0 ? 2 : 1);
        change.new_group = static_cast<u32>(5 + random.below(2));
        const bool is_directory =
            (volume->attributes(handle)->mode & format::type_mask) == format::type_directory;
        if (is_directory && random.below(6) == 0) {
            change.which |= AttributeChange::mode;
            change.new_mode = modes[random.below(std::size(modes))];
        }
        ASSERT_TRUE(volume->set_attributes(anybody, handle, change));
    }
}

/// Users who may and may not see and remove trees.
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
            Sights ignored;
            const Errc seen = volume->scan(caller, doomed->handle, std::ref(ignored));
            const Errc found =
                scan.scan(plan_for(ScanPurpose::visit, caller), doomed->handle, [](const auto&) {});
            EXPECT_EQ(seen, found) << seed << " user " << caller.user;
            if (caller.user == 0) continue;
            for (const auto check : {core::TreeCheck::as_rm, core::TreeCheck::whole}) {
                const Errc wanted =
                    TreeScanner(volume.inside()).check_removable(who, doomed->handle, check);
                auto plan = plan_for(ScanPurpose::removal, caller);
                plan.tree_check = check;
                const Errc removable = scan.scan(plan, doomed->handle, [](const auto&) {});
                // Which of several reasons is met first is a matter of chance.
                EXPECT_EQ(wanted == Errc::ok, removable == Errc::ok)
                    << seed << " user " << caller.user << ": " << static_cast<int>(wanted) << " "
                    << static_cast<int>(removable);
                ++(wanted == Errc::ok ? allowed : refused);
            }
        }
    }
    EXPECT_GT(refused, 10u);
    EXPECT_GT(allowed, 10u);
}

}  // namespace warren
