// SPDX-License-Identifier: Apache-2.0
// The thread goes round: whichever lane it comes to next has waited the longest. When it comes back
// to a lane, all others have reached the barrier at which that lane waits.
#include "tests/support/lanes.hpp"

#include <ucontext.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "base/check.hpp"

namespace warren {

#if WARREN_SANITIZED

struct Lanes::State {
    explicit State(u32 width) : barrier(width), turns(width) {
        for (u32 lane = 1; lane < width; ++lane)
            threads.emplace_back([this, lane] { lane_main(lane); });
    }
    ~State() {
        work = nullptr;
        turns.arrive_and_wait();
        for (std::thread& thread : threads)
            thread.join();
    }
    void lane_main(u32 lane) {
        for (;;) {
            turns.arrive_and_wait();
            if (work == nullptr) return;
            (*work)(lane);
            turns.arrive_and_wait();
        }
    }

    std::barrier<> barrier;
    std::barrier<> turns;  // passed before and after each run
    const std::function<void(u32)>* work = nullptr;
    std::vector<std::thread> threads;
};

void Lanes::run(const std::function<void(u32)>& work) {
    state_->work = &work;
    state_->turns.arrive_and_wait();
    work(0);
    state_->turns.arrive_and_wait();
}

void Lanes::wait_for_all(u32) {
    state_->barrier.arrive_and_wait();
}

#else

namespace {

constexpr u64 stack_bytes = 1 * mib;

struct Context {
    ucontext_t registers{};
    std::unique_ptr<std::byte[]> stack;  // lane 0 has the caller's
};

}  // namespace

struct Lanes::State {
    explicit State(u32 width) : contexts(width) {
        for (u32 lane = 1; lane < width; ++lane) {
            Context& context = contexts[lane];
            context.stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
            WARREN_CHECK(getcontext(&context.registers) == 0);
            context.registers.uc_stack.ss_sp = context.stack.get();
            context.registers.uc_stack.ss_size = stack_bytes;
            const u64 self = reinterpret_cast<u64>(this);
            makecontext(&context.registers, reinterpret_cast<void (*)()>(&State::lane_main), 3,
                        static_cast<u32>(self), static_cast<u32>(self >> 32), lane);
        }
    }

    static void lane_main(u32 self_low, u32 self_high, u32 lane) {
        State& state = *reinterpret_cast<State*>(u64{self_high} << 32 | self_low);
        for (;;) {
            (*state.work)(lane);
            state.pass(lane);
        }
    }

    /// Goes on with the next lane; returns when the thread has come round.
    void pass(u32 lane) {
        Context& next = contexts[(lane + 1) % contexts.size()];
        WARREN_CHECK(swapcontext(&contexts[lane].registers, &next.registers) == 0);
    }

    std::vector<Context> contexts;
    const std::function<void(u32)>* work = nullptr;
    bool is_leader_last = made++ % 2 != 0;

    inline static std::atomic<u64> made{0};
};

void Lanes::run(const std::function<void(u32)>& work) {
    State& state = *state_;
    state.work = &work;
    if (state.is_leader_last) state.pass(0);
    work(0);
    if (!state.is_leader_last) state.pass(0);
    state.is_leader_last = !state.is_leader_last;
}

void Lanes::wait_for_all(u32 lane) {
    state_->pass(lane);
}

#endif

Lanes::Lanes(u32 width) : state_(std::make_unique<State>(width)) {}

Lanes::~Lanes() = default;

}  // namespace warren
