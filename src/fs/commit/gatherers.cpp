// SPDX-License-Identifier: Apache-2.0
// Each thread gets several tasks, so that a thread that starts late delays the end less. The blocks
// of a task are spread over the list in parts of 64.
#include "fs/commit/gatherers.hpp"

#include <utility>

#include "base/out_of_memory.hpp"

namespace warren {

namespace {

constexpr u64 shares_per_thread = 4;
constexpr u64 part_blocks = 64;  // a cache line holds the dirty marks of 512 blocks

}  // namespace

void Gatherers::prepare(u64 blocks) {
    tasks_.clear();
    if (width_ < 2 || blocks < shared_blocks_min) return;
    const Errc ready = or_no_memory([&] {
        if (thread_pool_ == nullptr) thread_pool_ = std::make_unique<ThreadPool>(width_);
        for (u64 i = 0; i < width_ * shares_per_thread; ++i)
            tasks_.push_back({i, 0});
    });
    if (ready != Errc::ok) tasks_.clear();
}

void Gatherers::gather(const core::Store& store, const ops::CutArea& area) {
    const u64 shares = tasks_.size();
    if (shares == 0) return ops::gather_dirty(ThreadTeam{}, store, area, {}, ops::CopyWords());
    const auto copy = [&](const Task& task) {
        const ops::CutShare share{task.subject, shares, part_blocks};
        ops::gather_dirty(ThreadTeam{}, store, area, share, ops::CopyWords());
    };
    // This does not allocate: the tasks fit into the initial queues of a thread pool, and the
    // captured reference into the function object.
    thread_pool_->run(std::exchange(tasks_, {}),
                      [&copy](ThreadPool::Worker&, const Task& task) { copy(task); });
}

}  // namespace warren
