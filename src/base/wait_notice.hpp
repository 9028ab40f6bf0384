// SPDX-License-Identifier: Apache-2.0
// Lets a caller learn that a call which usually takes microseconds is about to wait, for a disk or
// for another thread: a program in Python then lets its other threads run.
#pragma once

#include <functional>
#include <utility>

namespace warren {

class WaitNotice {
 public:
    /// While this lives, `before_wait` is called on this thread before each such wait. It throws
    /// nothing.
    explicit WaitNotice(std::function<void()> before_wait)
        : before_wait_(std::move(before_wait)), outer_(std::exchange(current, this)) {}
    ~WaitNotice() { current = outer_; }
    WaitNotice(const WaitNotice&) = delete;
    WaitNotice& operator=(const WaitNotice&) = delete;

    /// Called by what is about to wait.
    static void tell() {
        if (current != nullptr) current->before_wait_();
    }

 private:
    inline static thread_local WaitNotice* current = nullptr;

    const std::function<void()> before_wait_;
    WaitNotice* const outer_;
};

}  // namespace warren
