// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated when a caller first needs it and then kept. A failed allocation can take
// as long as a successful one, so after a failure callers get the error at once for a while.
//
// Invariant: one thread at a time allocates, and none does after a success.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

#include "warren/result.hpp"

namespace warren {

class TakenOnce {
 public:
    using Clock = std::chrono::steady_clock;

    /// For how long after Errc::no_memory the allocation is not tried again.
    static constexpr std::chrono::seconds refusal{1};

    /// Errc::ok if the memory is allocated. Else calls `take()`, which allocates the part that is
    /// missing, and returns its result; or returns Errc::no_memory if that failed less than
    /// `refusal` ago. `now()` is Clock::now(). Thread-safe: waits while another thread allocates.
    template <class Now, class Take>
    Errc ensure(const Now& now, const Take& take) {
        // Acquire: pairs with the release below; a thread that sees `true` sees the memory too.
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
    Clock::time_point refused_until_ = Clock::time_point::min();  // guarded by mutex_
};

}  // namespace warren
