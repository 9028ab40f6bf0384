// SPDX-License-Identifier: Apache-2.0
// Lanes that run one function and wait for each other at barriers.
//
// They are contexts of the caller's thread, which goes from one lane to the next at a barrier:
// threads take ten times as long and more beside other work, most of it until the kernel runs the
// next one. Between two barriers lane 0 runs before the others in one run, after them in the next,
// so that a test finds a lane that relies on either. Under a sanitizer they are threads: the one
// for threads finds all such lanes, and the one for addresses loses sight of a context's stack.
#pragma once

#include <functional>
#include <memory>

#include "warren/types.hpp"

namespace warren {

class Lanes {
 public:
    explicit Lanes(u32 width);
    ~Lanes();
    Lanes(const Lanes&) = delete;
    Lanes& operator=(const Lanes&) = delete;

    /// Runs `work(lane)` on all lanes. They pass equally many barriers, at least one, the last of
    /// them when they have nothing more to do.
    void run(const std::function<void(u32)>& work);
    /// The barrier.
    void wait_for_all(u32 lane);

 private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace warren
