// SPDX-License-Identifier: Apache-2.0
// A volume whose tree "doomed" is reclaimed step by step on a host's Store, with the limits that a
// test sets for a step and the counts that the step reports.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

#include "fs/bulk/remove_tree/reclaim_tree.hpp"
#include "fs/ops/remove_tree.hpp"
#include "tests/fs/bulk/removal_trees.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/open_inside.hpp"

namespace warren {

/// The limits of a test's step, and its results. Members replace those of the engine.
class TestStep {
 public:
    u64 dropping = 0;
    ops::LaneRules rules{now_nanoseconds(), ~u64{0}, &dropping};
    std::function<void()> on_look;  // called before a directory is begun and before each leaf
    u64 looks_max = ~u64{0};        // at is_full() until it is
    u64 directories_max = ~u64{0};  // begun in one step
    u64 queue_max = ~u64{0};

    explicit TestStep(VolumeImplementation& volume) : volume_(volume) {}

    const core::Store& near(const core::Store& store) const { return store; }
    template <class Team>
    bool is_full(const Team& team) {
        return once(team, [&] {
            if (on_look) on_look();
            return begun_ >= directories_max || looks_++ >= looks_max;
        });
    }
    template <class Team>
    bool push(const Team& team, bool mine, const ops::TreeTask& task) {
        const u32 votes = team.ballot(mine);
        const bool fits = once(team, [&] { return tasks_.size() + 32 <= queue_max; });
        for (u32 left = votes; left != 0 && fits; left &= left - 1) {
            const auto one = team.broadcast(task, static_cast<u32>(hd::countr_zero(left)));
            once(team, [&] { tasks_.push_back(one); });
        }
        return fits;
    }
    bool is_listed(u64 /*number*/, u64 /*in*/) const { return false; }
    void set_aside(const ops::TreeTask& task, bool has_leftovers) {
        std::lock_guard lock(mutex_);
        aside.push_back(task.number());
        if (has_leftovers) leftovers.push_back(task.number());
    }
    void freed(const ops::TreeTask& /*task*/) {}
    void emptied(const ops::TreeTask& task) {
        std::lock_guard lock(mutex_);
        emptied_roots.push_back(task.number());
    }
    bool want(u64 place) {
        std::lock_guard lock(mutex_);
        return volume_.loader().load(place) == Errc::ok;
    }
    void fail(Errc code) {
        std::lock_guard lock(mutex_);
        error = code;
    }
    void pause() { std::this_thread::yield(); }

    template <class Team>
    bool pop(const Team& team, ops::TreeTask& task) {
        task = once(team, [&] {
            if (tasks_.empty()) return ops::TreeTask{};
            const ops::TreeTask first = tasks_.front();
            tasks_.pop_front();
            if (first.kind() == ops::TreeTask::directory_kind) ++begun_;
            return first;
        });
        return task.subject != 0;
    }
    void seed(const ops::TreeTask& task) { tasks_.push_back(task); }
    void add(const ops::FreeTally& tally) {
        std::lock_guard lock(mutex_);
        total.files += tally.files;
        total.directories += tally.directories;
        total.inodes += tally.inodes;
        total.blocks += tally.blocks;
    }

    std::vector<u64> aside;
    std::vector<u64> leftovers;
    std::vector<u64> emptied_roots;
    Errc error = Errc::ok;
    ops::FreeTally total;

 private:
    VolumeImplementation& volume_;
    std::mutex mutex_;
    std::deque<ops::TreeTask> tasks_;
    u64 begun_ = 0;
    u64 looks_ = 0;
};

/// Whether a node somewhere below these pairs has a first key greater than that of its pair.
inline bool has_late_node(const core::Store& store, std::span<const format::TreePair> pairs,
                          u32 height) {
    return height > 1 && std::ranges::any_of(pairs, [&](const format::TreePair& pair) {
               const auto& node =
                   *reinterpret_cast<const format::TreeNode*>(store.base + pair.child.offset());
               return node.pairs[0].key > pair.key ||
                      has_late_node(store, std::span(node.pairs).first(node.count), node.height);
           });
}

/// A volume whose tree "doomed" is removed step by step.
class ReclaimedVolume {
 public:
    explicit ReclaimedVolume(const TreeRecipe& recipe)
        : disk_(make_memory_disk(recipe.size_bytes)) {
        {
            const auto volume = open_on(*disk_, {.engine = EngineChoice::cpu});
            before_ = volume->statistics().inodes_used;
            tree_ = recipe.build(*volume);
            built_ = volume->statistics().inodes_used;
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        volume_ = open_inside(*disk_);
        roots_ = {detach_doomed(*volume_, tree_)};
    }

    VolumeImplementation& volume() { return *volume_; }
    const std::vector<u64>& roots() const { return roots_; }

    /// The work that follows a step.
    void end_step(const TestStep& step) {
        EXPECT_EQ(step.error, Errc::ok);
        core::StoreState& state = *volume_->store().state;
        state.blocks_used -= step.total.blocks;
        state.inodes_used -= step.total.inodes;
        files_ += step.total.files;
        directories_ += step.total.directories + step.emptied_roots.size();
        for (const u64 root : step.emptied_roots) {
            const auto ended = volume_->run(
                [&](CpuOperation& op) { return ops::end_emptied(op, root, step.rules.now); });
            ASSERT_TRUE(ended);
            EXPECT_EQ(volume_->settle(*ended), Errc::ok);
        }
        for (const u64 number : step.aside) {
            EXPECT_EQ(volume_->run([&](CpuOperation& op) {
                return ops::adopt_orphan(op, number, step.rules.now);
            }),
                      Errc::ok);
        }
        // Done: inodes that need an operation of their own are handled one by one below.
        roots_.clear();
        for (const u64 number : step.aside) {
            const auto& kept = step.leftovers;
            if (std::find(kept.begin(), kept.end(), number) == kept.end()) {
                roots_.push_back(number);
            }
        }
        EXPECT_EQ(volume_->commit(), Errc::ok);
    }

    /// Closes the volume; it must be consistent, and free of the tree when it is opened again.
    void finish(u64 left_files) {
        EXPECT_EQ(files_ + left_files, tree_.files);
        if (left_files == 0) {
            EXPECT_EQ(directories_, tree_.directories);
        }
        EXPECT_EQ(volume_->close(), Errc::ok);
        volume_.reset();
        if (!expect_clean(*disk_)) return;
        const auto again = open_on(*disk_);
        expect_counts_agree(*again);
        EXPECT_EQ(list_names(*again, again->root()).count("doomed"), 0u);
        EXPECT_EQ(again->close(), Errc::ok);
        expect_clean(*disk_);
    }

    /// Whether a step has left such a node in the tree of a root.
    bool has_late_node() const {
        return std::ranges::any_of(roots_, [&](u64 root) {
            const core::Store& store = volume_->store();
            const auto& inode =
                *reinterpret_cast<const format::Inode*>(store.base + root * format::inode_size);
            const auto pairs = std::span(inode.area.pairs).first(inode.area_count);
            return warren::has_late_node(store, pairs, inode.height);
        });
    }

    /// A crash here leaves a consistent volume on disk, and the next open ends the removal.
    void expect_sound_if_cut_off() const {
        const auto cut = disk_->copy();
        EXPECT_TRUE(expect_clean(*cut));
        const auto opened = open_on(*cut, {.engine = EngineChoice::cpu});
        ASSERT_NE(opened, nullptr);
        EXPECT_EQ(opened->statistics().inodes_used, before_);
        EXPECT_EQ(opened->close(), Errc::ok);
        EXPECT_TRUE(expect_clean(*cut));
    }

    u64 files() const { return files_; }
    const DoomedTree& tree() const { return tree_; }

 private:
    std::unique_ptr<MemoryDisk> disk_;
    std::unique_ptr<VolumeImplementation> volume_;
    DoomedTree tree_;
    std::vector<u64> roots_;
    u64 before_ = 0;
    u64 built_ = 0;
    u64 files_ = 0;
    u64 directories_ = 0;
};

}  // namespace warren
