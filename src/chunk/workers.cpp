// SPDX-License-Identifier: Apache-2.0
// One mutex guards all of it: items are a quarter of a megabyte each, so it is taken rarely.
#include "chunk/workers.hpp"

#include "base/processors.hpp"

namespace warren::chunk {

Workers::Workers(u32 threads) : threads_(threads != 0 ? threads : usable_processors()) {}

Workers::~Workers() {
    {
        std::lock_guard lock(mutex_);
        ends_ = true;
    }
    wake_.notify_all();
    for (std::thread& other : others_)
        other.join();
}

void Workers::run(u64 count, const std::function<void(u64, u32)>& work) {
    if (threads_ == 1 || count < 2) {
        for (u64 item = 0; item < count; ++item)
            work(item, 0);
        return;
    }
    while (others_.size() + 1 < threads_) {
        const u32 worker = static_cast<u32>(others_.size()) + 1;
        others_.emplace_back([this, worker] { serve(worker); });
    }
    {
        std::lock_guard lock(mutex_);
        work_ = &work;
        count_ = count;
        next_ = 0;
        busy_ = threads_;
        ++round_;
    }
    wake_.notify_all();
    take_items(0);
    std::unique_lock lock(mutex_);
    --busy_;
    done_.wait(lock, [this] { return busy_ == 0; });
}

void Workers::take_items(u32 worker) {
    while (true) {
        u64 item = 0;
        {
            std::lock_guard lock(mutex_);
            if (next_ == count_) return;
            item = next_++;
        }
        (*work_)(item, worker);
    }
}

void Workers::serve(u32 worker) {
    u64 seen = 0;
    while (true) {
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [&] { return ends_ || round_ != seen; });
            if (ends_) return;
            seen = round_;
        }
        take_items(worker);
        std::lock_guard lock(mutex_);
        if (--busy_ == 0) done_.notify_one();
    }
}

}  // namespace warren::chunk
