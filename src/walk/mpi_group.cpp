// SPDX-License-Identifier: Apache-2.0
// The ranks of an MPI job, through the plug-in for their MPI.
//
// A blocking wait of MPI keeps a core busy, and another thread cannot end it. So ranks on one
// machine wake each other by a futex on a word of shared memory, one for each rank.
//
// Invariant: all calls of the plug-in are made on the thread that has loaded it.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "walk/launch.hpp"
#include "walk/mpi_plugin.hpp"
#include "warren/walk_group.hpp"

namespace warren::walk {

namespace {

constexpr size_t arriving_most = 64;
constexpr u32 shortest_pause_us = 20;  // while MPI transfers a message that will not wake a rank
constexpr u32 longest_pause_us = 500;
constexpr u64 round_bytes = 128 * kib;  // per rank, gathered in one call
constexpr u64 rounds_bytes = 1 * gib;   // of all ranks together

/// How a rank is woken. In memory shared by all ranks of a machine, initially zeros.
struct alignas(64) WakeUp {
    std::atomic<u32> count;
    std::atomic<u32> sleeps;  // whether the rank is waiting
    std::atomic<u32> posted;  // messages sent to the rank by ranks of this machine
};
static_assert(std::atomic<u32>::is_always_lock_free);

/// MPI counts bytes in int.
int mpi_size(size_t bytes) {
    WARREN_CHECK(bytes <= static_cast<size_t>(std::numeric_limits<int>::max()));
    return static_cast<int>(bytes);
}

class MpiGroup : public Group {
 public:
    MpiGroup(const warren_mpi_plugin_table& mpi, u32 rank, u32 ranks);

    u32 rank() const override { return rank_; }
    const std::vector<u32>& nodes() const override { return nodes_; }
    void begin_walk() override;
    void end_walk() override;
    void send(u32 to, std::string message) override;
    bool receive(u32& from, std::string& message) override;
    bool wait(u32 microseconds) override;
    void wake() override;
    bool messages_wake() const override { return messages_wake_; }
    std::vector<std::string> gather(std::string_view own) override;

 private:
    struct PendingMessage {
        warren_mpi_handle request{};
        std::string bytes;
        u32 peer = 0;
    };
    std::string node_name() const;
    void share_wake_ups();
    void wake_rank(u32 rank);
    bool has_more() const;
    void forget_sent();
    void begin_arrivals();

    const warren_mpi_plugin_table& mpi_;
    u32 rank_;
    std::vector<u32> nodes_;
    std::list<PendingMessage> sent_;
    std::list<PendingMessage> arriving_;
    std::vector<WakeUp*> wake_ups_;  // indexed by rank; null: on another machine
    bool messages_wake_ = false;
    u32 seen_ = 0;      // `count` at the end of the last wait
    u32 received_ = 0;  // messages received
    u32 pauses_ = 0;
};

MpiGroup::MpiGroup(const warren_mpi_plugin_table& mpi, u32 rank, u32 ranks)
    : mpi_(mpi), rank_(rank), nodes_(ranks), wake_ups_(ranks) {
    const std::vector<std::string> names = gather(node_name());
    for (size_t other = 0; other < names.size(); ++other) {
        const auto first = std::find(names.begin(), names.end(), names[other]);
        nodes_[other] = static_cast<u32>(first - names.begin());
    }
    share_wake_ups();
}

std::string MpiGroup::node_name() const {
    if (const char* name = std::getenv("WARREN_WALK_NODE")) return name;
    if (const char* text = std::getenv("WARREN_WALK_RANKS_PER_NODE")) {
        const unsigned long ranks = std::max(1ul, std::strtoul(text, nullptr, 10));
        return "node " + std::to_string(rank_ / ranks);
    }
    char name[WARREN_MPI_NAME_BYTES] = {};
    mpi_.get_machine_name(name);
    return name;
}

void MpiGroup::share_wake_ups() {
    // MPI aligns only to words. All ranks map the memory at page boundaries, so each finds the same
    // aligned place in it.
    const size_t bytes = sizeof(WakeUp) + alignof(WakeUp);
    std::vector<void*> places(ranks());
    mpi_.share_memory(bytes, places.data());
    for (size_t other = 0; other < places.size(); ++other) {
        size_t left = bytes;
        void* place = places[other];
        if (place != nullptr) place = std::align(alignof(WakeUp), sizeof(WakeUp), place, left);
        wake_ups_[other] = static_cast<WakeUp*>(place);
    }
    messages_wake_ = std::find(wake_ups_.begin(), wake_ups_.end(), nullptr) == wake_ups_.end();
}

void MpiGroup::wake_rank(u32 rank) {
    WakeUp* const wake_up = wake_ups_[rank];
    if (wake_up == nullptr) return;
    // Sequentially consistent: pairs with wait(), which stores `sleeps` and then reads `count`.
    wake_up->count.fetch_add(1, std::memory_order_seq_cst);
    if (wake_up->sleeps.load(std::memory_order_seq_cst) == 0) return;
    ::syscall(SYS_futex, &wake_up->count, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void MpiGroup::wake() {
    wake_rank(rank_);
}

/// Whether there may be a message to receive.
bool MpiGroup::has_more() const {
    // Acquire: pairs with send(), so that messages counted in `posted` can be found.
    return !messages_wake_ || wake_ups_[rank_]->posted.load(std::memory_order_acquire) != received_;
}

bool MpiGroup::wait(u32 microseconds) {
    // MPI transfers a large message in parts, and only during calls, so the wait must be short.
    if (sent_.empty() && !has_more()) {
        pauses_ = 0;
    } else {
        microseconds = std::min(
            {microseconds, shortest_pause_us << std::min(pauses_++, 5u), longest_pause_us});
    }
    WakeUp& wake_up = *wake_ups_[rank_];
    // Pairs with wake_rank(): either the futex sees the new count, or wake_rank() sees `sleeps`.
    wake_up.sleeps.store(1, std::memory_order_seq_cst);
    const timespec time{0, long{microseconds} * 1000};
    ::syscall(SYS_futex, &wake_up.count, FUTEX_WAIT, seen_, &time, nullptr, 0);
    wake_up.sleeps.store(0, std::memory_order_relaxed);
    // Acquire: pairs with wake_rank(), so that what was done before the wake-up is visible.
    const u32 count = wake_up.count.load(std::memory_order_acquire);
    return std::exchange(seen_, count) != count;
}

void MpiGroup::begin_walk() {
    mpi_.begin_walk();
}

void MpiGroup::end_walk() {
    for (PendingMessage& pending : sent_)
        mpi_.wait_for_request(&pending.request);
    sent_.clear();
    mpi_.end_walk();
}

void MpiGroup::send(u32 to, std::string message) {
    PendingMessage& pending = sent_.emplace_back();
    pending.bytes = std::move(message);
    pending.peer = to;
    mpi_.begin_send(to, pending.bytes.data(), mpi_size(pending.bytes.size()), &pending.request);
    // Release: pairs with has_more().
    if (wake_ups_[to] != nullptr) wake_ups_[to]->posted.fetch_add(1, std::memory_order_release);
    wake_rank(to);
    forget_sent();
}

/// Drops messages that have been sent. Wakes the receivers of the others again: MPI may need calls
/// of theirs to make progress.
void MpiGroup::forget_sent() {
    for (auto pending = sent_.begin(); pending != sent_.end();) {
        const bool is_done = mpi_.test_request(&pending->request) != 0;
        if (!is_done) wake_rank(pending->peer);
        pending = is_done ? sent_.erase(pending) : std::next(pending);
    }
}

void MpiGroup::begin_arrivals() {
    u32 from = 0;
    int size = 0;
    warren_mpi_handle message{};
    while (arriving_.size() < arriving_most && mpi_.find_message(&from, &size, &message) != 0) {
        PendingMessage& pending = arriving_.emplace_back();
        pending.peer = from;
        pending.bytes.resize(static_cast<size_t>(size));
        mpi_.begin_receive(message, pending.bytes.data(), size, &pending.request);
    }
}

/// Messages are returned in the order in which MPI found them, however long each takes to arrive.
bool MpiGroup::receive(u32& from, std::string& message) {
    forget_sent();
    // A call of MPI polls all transports, and yields the core if there is nothing.
    if (!has_more()) return false;
    begin_arrivals();
    if (arriving_.empty()) return false;
    if (mpi_.test_request(&arriving_.front().request) == 0) return false;
    from = arriving_.front().peer;
    message = std::move(arriving_.front().bytes);
    arriving_.pop_front();
    ++received_;
    return true;
}

/// Gathers in rounds, since MPI counts bytes in int.
std::vector<std::string> MpiGroup::gather(std::string_view own) {
    std::vector<int> sizes(ranks(), mpi_size(sizeof(u64)));
    std::vector<int> offsets;
    for (size_t other = 0; other < ranks(); ++other)
        offsets.push_back(mpi_size(other * sizeof(u64)));
    const u64 size = own.size();
    std::vector<u64> left(ranks());
    mpi_.gather(&size, sizes.data(), offsets.data(), left.data());
    std::vector<std::string> parts(ranks());
    const u64 most = std::min(round_bytes, rounds_bytes / ranks());
    while (std::any_of(left.begin(), left.end(), [](u64 bytes) { return bytes != 0; })) {
        size_t end = 0;
        for (size_t other = 0; other < parts.size(); ++other) {
            sizes[other] = mpi_size(std::min(left[other], most));
            offsets[other] = mpi_size(end);
            end += static_cast<size_t>(sizes[other]);
            left[other] -= static_cast<u64>(sizes[other]);
        }
        std::string all(end, '\0');
        mpi_.gather(own.data(), sizes.data(), offsets.data(), all.data());
        own.remove_prefix(static_cast<size_t>(sizes[rank_]));
        for (size_t other = 0; other < parts.size(); ++other)
            parts[other].append(all, static_cast<size_t>(offsets[other]),
                                static_cast<size_t>(sizes[other]));
    }
    return parts;
}

const warren_mpi_plugin_table* started = nullptr;

}  // namespace

Group* mpi_group(std::string& problem) {
    static Group* group = nullptr;
    const Launch launch = launch_of_environment();
    if (group != nullptr || launch.is_alone()) return group;
    if (launch.is_refused()) {
        problem = launch.refusal();
        return nullptr;
    }
    const warren_mpi_plugin_table* const plugin = load_mpi_plugin(*launch.mpi, problem);
    if (plugin == nullptr) return nullptr;
    u32 rank = 0;
    u32 ranks = 0;
    if (const char* reason = plugin->start(&rank, &ranks)) {
        problem = std::string(launch.mpi->name) + " does not start: " + reason;
        return nullptr;
    }
    if (ranks != launch.processes) {
        plugin->finish();
        problem = launch.mismatch(ranks);
        return nullptr;
    }
    started = plugin;
    std::atexit([] { started->finish(); });
    group = new MpiGroup(*plugin, rank, ranks);
    return group;
}

}  // namespace warren::walk
