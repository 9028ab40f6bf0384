// SPDX-License-Identifier: Apache-2.0
// The events of a simulation, the earliest first. Nearly all of them are a few message latencies
// ahead, so they wait in a ring of short intervals, of which only the current one is kept sorted.
//
// Invariant: events are returned in the order of their times, events with equal times in the order
// in which they were pushed. No event is pushed for a time before that of the last one returned.
#pragma once

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "warren/types.hpp"

namespace warren::walk {

struct Event {
    double time;
    u64 number;  // number of events pushed before
    u32 rank;
    u32 message;
    bool operator>(const Event& other) const {
        return time != other.time ? time > other.time : number > other.number;
    }
};

class EventQueue {
 public:
    EventQueue() : ring_(intervals) {}

    bool empty() const { return now_.empty() && near_ == 0 && far_.empty(); }

    void push(double time, u32 rank, u32 message) { place({time, pushed_++, rank, message}); }

    /// Requires: the queue is not empty.
    Event pop() {
        while (now_.empty())
            go_on();
        std::pop_heap(now_.begin(), now_.end(), std::greater<>());
        const Event event = now_.back();
        now_.pop_back();
        return event;
    }

 private:
    static constexpr u64 intervals = 1 << 11;
    static constexpr double seconds_each = 4e-6;

    static u64 interval_of(const Event& event) {
        return static_cast<u64>(event.time / seconds_each);
    }

    void place(const Event& event) {
        const u64 interval = interval_of(event);
        if (interval <= at_) {
            now_.push_back(event);
            std::push_heap(now_.begin(), now_.end(), std::greater<>());
        } else if (interval < at_ + intervals) {
            ring_[interval % intervals].push_back(event);
            ++near_;
        } else {
            far_.push(event);
        }
    }

    /// Advances to the next interval, or skips intervals without events.
    void go_on() {
        at_ = near_ == 0 ? interval_of(far_.top()) : at_ + 1;
        std::vector<Event>& next = ring_[at_ % intervals];
        near_ -= next.size();
        now_.swap(next);
        std::make_heap(now_.begin(), now_.end(), std::greater<>());
        while (!far_.empty() && interval_of(far_.top()) < at_ + intervals) {
            const Event event = far_.top();
            far_.pop();
            place(event);
        }
    }

    u64 at_ = 0;  // the current interval, whose events are in now_
    u64 near_ = 0;
    u64 pushed_ = 0;
    std::vector<Event> now_;  // a heap
    std::vector<std::vector<Event>> ring_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> far_;
};

}  // namespace warren::walk
