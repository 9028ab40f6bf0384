// SPDX-License-Identifier: Apache-2.0
// Memory that stays once it has been taken, by whoever comes for it first. To be refused can take
// as long as to get it, so a refusal holds for a while: who comes meanwhile gets it at once.
//
// Invariant: one taking at a time, and none after one that went well.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

#include "warren/result.hpp"

namespace warren {

class TakenOnce {
 public:
    using Clock = std::chrono::steady_clock;

    /// So long a refusal holds.
    static constexpr std::chrono::seconds refusal{1};

    /// Errc::ok if the memory is there. Else what `take()` answers, which takes what is lacking of
    /// it, or Errc::no_memory while a refusal holds. `now()` is Clock::now(). By any thread; waits
    /// for one that is taking it.
    template <class Now, class Take>
    Errc ensure(const Now& now, const Take& take) {
        // Acquire: pairs with the release below; who sees it sees the memory too.
        if (is_taken_.load(std::memory_order_acquire)) return Errc::ok;
        const std::lock_guard lock(mutex_);
        if (is_taken_.load(std::memory_order_relaxed)) return Errc::ok;
        if (now() < refused_until_) return Errc::no_memory;
        const Errc code = take();
        if (code == Errc::no_memory) refused_until_ = now() + refusal;
        // Release: pairs with the acquire above.
        if (code == Errc::ok) is_taken_.store(true, std::memory_order_release);
        return code;
    }

 private:
    std::mutex mutex_;
    std::atomic<bool> is_taken_{false};
    Clock::time_point refused_until_ = Clock::time_point::min();  // under mutex_
};

}  // namespace warren
