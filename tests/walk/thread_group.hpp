// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process, and a network between them with random delays: messages of
// one pair arrive in order, those of different pairs in any order.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "warren/walk_group.hpp"

namespace warren::walk {

class ThreadNetwork {
 public:
    using Clock = std::chrono::steady_clock;

    /// Messages take up to `delay_us`, sometimes ten times as long.
    ThreadNetwork(std::vector<u32> nodes, u64 seed, u64 delay_us);

    /// Runs `work` once for each rank, each on a thread of its own.
    void run(const std::function<void(Group&)>& work);
    /// Called with each message before it is delivered.
    void set_watcher(std::function<void(const std::string&)> watcher) {
        watcher_ = std::move(watcher);
    }

 private:
    class Member;
    struct Delivery {
        Clock::time_point arrives;
        std::string message;
    };

    u32 ranks() const { return static_cast<u32>(nodes_.size()); }
    std::deque<Delivery>& channel(u32 from, u32 to) { return channels_[from * ranks() + to]; }

    std::vector<u32> nodes_;
    std::mutex mutex_;
    std::condition_variable met_;
    Random random_;
    u64 delay_us_;
    std::vector<std::deque<Delivery>> channels_;
    std::vector<std::string> gathering_;
    std::vector<std::string> gathered_;
    u32 waiting_ = 0;
    u64 meetings_ = 0;
    std::function<void(const std::string&)> watcher_;
};

class ThreadNetwork::Member : public Group {
 public:
    Member(ThreadNetwork& network, u32 rank) : network_(network), rank_(rank) {}

    u32 rank() const override { return rank_; }
    const std::vector<u32>& nodes() const override { return network_.nodes_; }
    void begin_walk() override { gather({}); }
    void end_walk() override {
        gather({});
        std::lock_guard lock(network_.mutex_);
        for (u32 from = 0; from < ranks(); ++from)
            EXPECT_TRUE(network_.channel(from, rank_).empty()) << "a message was left behind";
    }
    void send(u32 to, std::string message) override {
        std::lock_guard lock(network_.mutex_);
        Random& random = network_.random_;
        u64 delay_us = network_.delay_us_ == 0 ? 0 : random.below(network_.delay_us_);
        if (random.one_in(50)) delay_us *= 10;
        auto& channel = network_.channel(rank_, to);
        Clock::time_point arrives = Clock::now() + std::chrono::microseconds(delay_us);
        if (!channel.empty()) arrives = std::max(arrives, channel.back().arrives);
        channel.push_back({arrives, std::move(message)});
    }
    bool receive(u32& from, std::string& message) override {
        std::lock_guard lock(network_.mutex_);
        const u32 first = static_cast<u32>(network_.random_.below(ranks()));
        for (u32 offset = 0; offset < ranks(); ++offset) {
            from = (first + offset) % ranks();
            auto& channel = network_.channel(from, rank_);
            if (channel.empty() || channel.front().arrives > Clock::now()) continue;
            message = std::move(channel.front().message);
            channel.pop_front();
            if (network_.watcher_) network_.watcher_(message);
            return true;
        }
        return false;
    }
    std::vector<std::string> gather(std::string_view own) override {
        std::unique_lock lock(network_.mutex_);
        network_.gathering_[rank_] = own;
        const u64 meeting = network_.meetings_;
        if (++network_.waiting_ == ranks()) {
            network_.waiting_ = 0;
            ++network_.meetings_;
            network_.gathered_ = network_.gathering_;
            network_.met_.notify_all();
        }
        network_.met_.wait(lock, [&] { return network_.meetings_ != meeting; });
        return network_.gathered_;
    }

 private:
    ThreadNetwork& network_;
    u32 rank_;
};

inline ThreadNetwork::ThreadNetwork(std::vector<u32> nodes, u64 seed, u64 delay_us)
    : nodes_(std::move(nodes)),
      random_(seed),
      delay_us_(delay_us),
      channels_(nodes_.size() * nodes_.size()),
      gathering_(nodes_.size()) {}

inline void ThreadNetwork::run(const std::function<void(Group&)>& work) {
    std::vector<std::unique_ptr<Member>> members;
    for (u32 rank = 0; rank < ranks(); ++rank)
        members.push_back(std::make_unique<Member>(*this, rank));
    std::vector<std::thread> threads;
    for (auto& member : members)
        threads.emplace_back([&work, &member] { work(*member); });
    for (std::thread& thread : threads)
        thread.join();
}

}  // namespace warren::walk
