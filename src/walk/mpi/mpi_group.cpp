// SPDX-License-Identifier: Apache-2.0
// The ranks of an MPI job. This file alone is the plug-in libwarren_walk_mpi.so: a program that was
// not started by mpirun never loads it, and needs no MPI on its machine.
//
// MPI has no wait that another thread, or a rank that sends something, can end, but by keeping a
// core busy. So ranks on one machine ring at each other: a word of shared memory for each, a futex.
//
// Invariant: all MPI calls come from the thread that has loaded the plug-in. During a walk only
// non-blocking messages between two ranks are used, on a communicator of that walk.
#include <linux/futex.h>
#include <mpi.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "warren/walk_group.hpp"

namespace warren::walk {

namespace {

constexpr size_t arriving_most = 64;
constexpr u32 shortest_pause_us = 20;  // while MPI has something under way that does not ring
constexpr u32 longest_pause_us = 500;
constexpr u64 round_bytes = 128 * kib;  // of each rank, gathered in one call
constexpr u64 rounds_bytes = 1 * gib;   // of all

/// In memory that all ranks of a machine see; zeros at first.
struct alignas(64) Bell {
    std::atomic<u32> rings;
    std::atomic<u32> sleeps;  // whether its rank waits for the next ring
    std::atomic<u32> posted;  // messages to its rank, from ranks of this machine
};
static_assert(std::atomic<u32>::is_always_lock_free);

void nap(long microseconds) {
    const timespec pause{0, microseconds * 1000};
    ::nanosleep(&pause, nullptr);
}

/// Waits without keeping a core busy: there may be more ranks than cores.
void wait_for(MPI_Request request) {
    int is_done = 0;
    for (long pause = 10;; pause = std::min(2 * pause, 500L)) {
        MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
        if (is_done != 0) return;
        nap(pause);
    }
}

class MpiGroup : public Group {
 public:
    MpiGroup();

    u32 rank() const override { return rank_; }
    const std::vector<u32>& nodes() const override { return nodes_; }
    void begin_walk() override;
    void end_walk() override;
    void send(u32 to, std::string message) override;
    bool receive(u32& from, std::string& message) override;
    bool wait(u32 microseconds) override;
    void ring() override;
    bool hears_all() const override { return hears_all_; }
    std::vector<std::string> gather(std::string_view own) override;

 private:
    struct Letter {
        MPI_Request request = MPI_REQUEST_NULL;
        std::string bytes;
        u32 peer = 0;
    };
    void hang_bells();
    void ring_at(u32 rank);
    bool has_more() const;
    void forget_sent();
    void begin_arrivals();

    u32 rank_ = 0;
    std::vector<u32> nodes_;
    MPI_Comm of_walk_ = MPI_COMM_NULL;
    std::list<Letter> sent_;
    std::list<Letter> arriving_;
    MPI_Win window_ = MPI_WIN_NULL;
    std::vector<Bell*> bells_;  // of each rank; null: on another machine
    bool hears_all_ = false;
    u32 heard_ = 0;     // rings before the last wait's end
    u32 received_ = 0;  // messages
    u32 pauses_ = 0;
};

std::string node_name(u32 rank) {
    if (const char* name = std::getenv("WARREN_WALK_NODE")) return name;
    if (const char* text = std::getenv("WARREN_WALK_RANKS_PER_NODE")) {
        const unsigned long ranks = std::max(1ul, std::strtoul(text, nullptr, 10));
        return "node " + std::to_string(rank / ranks);
    }
    char name[MPI_MAX_PROCESSOR_NAME] = {};
    int size = 0;
    MPI_Get_processor_name(name, &size);
    return {name, static_cast<size_t>(size)};
}

MpiGroup::MpiGroup() {
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    rank_ = static_cast<u32>(rank);
    nodes_.assign(static_cast<size_t>(ranks), 0);
    const std::vector<std::string> names = gather(node_name(rank_));
    for (size_t other = 0; other < names.size(); ++other) {
        const auto first = std::find(names.begin(), names.end(), names[other]);
        nodes_[other] = static_cast<u32>(first - names.begin());
    }
    hang_bells();
}

void MpiGroup::hang_bells() {
    bells_.assign(nodes_.size(), nullptr);
    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    Bell* own = nullptr;
    MPI_Win_allocate_shared(sizeof(Bell), 1, MPI_INFO_NULL, machine, &own, &window_);
    new (own) Bell{};
    int size = 0;
    MPI_Comm_size(machine, &size);
    std::vector<int> worldwide(static_cast<size_t>(size));
    const int rank = static_cast<int>(rank_);
    MPI_Allgather(&rank, 1, MPI_INT, worldwide.data(), 1, MPI_INT, machine);
    for (int near = 0; near < size; ++near) {
        MPI_Aint bytes = 0;
        int unit = 0;
        Bell* bell = nullptr;
        MPI_Win_shared_query(window_, near, &bytes, &unit, &bell);
        bells_[static_cast<size_t>(worldwide[static_cast<size_t>(near)])] = bell;
    }
    hears_all_ = static_cast<size_t>(size) == nodes_.size();
    MPI_Comm_free(&machine);
}

void MpiGroup::ring_at(u32 rank) {
    Bell* const bell = bells_[rank];
    if (bell == nullptr) return;
    // Sequentially consistent: the partner is wait(), which looks the other way round.
    bell->rings.fetch_add(1, std::memory_order_seq_cst);
    if (bell->sleeps.load(std::memory_order_seq_cst) == 0) return;
    ::syscall(SYS_futex, &bell->rings, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void MpiGroup::ring() {
    ring_at(rank_);
}

/// Whether there may be something to receive.
bool MpiGroup::has_more() const {
    // Acquire: what was sent before is there; the partner is send().
    return !hears_all_ || bells_[rank_]->posted.load(std::memory_order_acquire) != received_;
}

bool MpiGroup::wait(u32 microseconds) {
    // What is under way in parts goes on only when MPI is looked at.
    if (sent_.empty() && !has_more()) {
        pauses_ = 0;
    } else {
        microseconds = std::min(
            {microseconds, shortest_pause_us << std::min(pauses_++, 5u), longest_pause_us});
    }
    Bell& bell = *bells_[rank_];
    // The partner is ring_at(): the futex sees its ring, or it sees that this rank sleeps.
    bell.sleeps.store(1, std::memory_order_seq_cst);
    const timespec time{0, long{microseconds} * 1000};
    ::syscall(SYS_futex, &bell.rings, FUTEX_WAIT, heard_, &time, nullptr, 0);
    bell.sleeps.store(0, std::memory_order_relaxed);
    // Acquire: what was done before the ring is seen; the partner is ring_at().
    const u32 rings = bell.rings.load(std::memory_order_acquire);
    return std::exchange(heard_, rings) != rings;
}

void MpiGroup::begin_walk() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_idup(MPI_COMM_WORLD, &of_walk_, &request);
    wait_for(request);
}

void MpiGroup::end_walk() {
    for (Letter& letter : sent_)
        wait_for(letter.request);
    sent_.clear();
    MPI_Comm_free(&of_walk_);
}

void MpiGroup::send(u32 to, std::string message) {
    Letter& letter = sent_.emplace_back();
    letter.bytes = std::move(message);
    letter.peer = to;
    MPI_Isend(letter.bytes.data(), static_cast<int>(letter.bytes.size()), MPI_BYTE,
              static_cast<int>(to), 0, of_walk_, &letter.request);
    // Release: the partner is has_more().
    if (bells_[to] != nullptr) bells_[to]->posted.fetch_add(1, std::memory_order_release);
    ring_at(to);
    forget_sent();
}

/// What is not gone yet rings again: the other side may have to do its part.
void MpiGroup::forget_sent() {
    for (auto letter = sent_.begin(); letter != sent_.end();) {
        int is_done = 0;
        MPI_Test(&letter->request, &is_done, MPI_STATUS_IGNORE);
        if (is_done == 0) ring_at(letter->peer);
        letter = is_done != 0 ? sent_.erase(letter) : std::next(letter);
    }
}

void MpiGroup::begin_arrivals() {
    while (arriving_.size() < arriving_most) {
        int is_there = 0;
        MPI_Message message{};
        MPI_Status status{};
        // A look that finds nothing fetches what has come: the second one sees that.
        for (u32 look = 0; look < 2 && is_there == 0; ++look)
            MPI_Improbe(MPI_ANY_SOURCE, 0, of_walk_, &is_there, &message, &status);
        if (is_there == 0) return;
        int size = 0;
        MPI_Get_count(&status, MPI_BYTE, &size);
        Letter& letter = arriving_.emplace_back();
        letter.peer = static_cast<u32>(status.MPI_SOURCE);
        letter.bytes.resize(static_cast<size_t>(size));
        MPI_Imrecv(letter.bytes.data(), size, MPI_BYTE, &message, &letter.request);
    }
}

/// Handed over in the order in which they were met, however long each takes to be here.
bool MpiGroup::receive(u32& from, std::string& message) {
    forget_sent();
    // To ask MPI is to let it look everywhere, and give up the core if nothing is there.
    if (!has_more()) return false;
    begin_arrivals();
    if (arriving_.empty()) return false;
    int is_done = 0;
    MPI_Test(&arriving_.front().request, &is_done, MPI_STATUS_IGNORE);
    if (is_done == 0) return false;
    from = arriving_.front().peer;
    message = std::move(arriving_.front().bytes);
    arriving_.pop_front();
    ++received_;
    return true;
}

/// In rounds, since MPI counts bytes by int.
std::vector<std::string> MpiGroup::gather(std::string_view own) {
    const u64 size = own.size();
    std::vector<u64> left(ranks());
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallgather(&size, 1, MPI_UINT64_T, left.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD, &request);
    wait_for(request);
    std::vector<std::string> parts(ranks());
    const u64 most = std::min(round_bytes, rounds_bytes / ranks());
    while (std::any_of(left.begin(), left.end(), [](u64 bytes) { return bytes != 0; })) {
        std::vector<int> sizes;
        std::vector<int> places;
        int end = 0;
        for (u64& bytes : left) {
            sizes.push_back(static_cast<int>(std::min(bytes, most)));
            places.push_back(end);
            end += sizes.back();
            bytes -= static_cast<u64>(sizes.back());
        }
        std::string all(static_cast<size_t>(end), '\0');
        MPI_Iallgatherv(own.data(), sizes[rank_], MPI_BYTE, all.data(), sizes.data(), places.data(),
                        MPI_BYTE, MPI_COMM_WORLD, &request);
        wait_for(request);
        own.remove_prefix(static_cast<size_t>(sizes[rank_]));
        for (size_t other = 0; other < parts.size(); ++other)
            parts[other].append(all, static_cast<size_t>(places[other]),
                                static_cast<size_t>(sizes[other]));
    }
    return parts;
}

/// All wait for the last: one that has gone is taken for one that died.
void leave() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    wait_for(request);
    MPI_Finalize();
}

}  // namespace

}  // namespace warren::walk

/// Null if the program takes a Group for something else, or if MPI cannot be used. The number is
/// that of the interface between the program and the plug-in.
extern "C" __attribute__((visibility("default"))) warren::walk::Group* warren_walk_mpi_2(
    size_t group_bytes) {
    if (group_bytes != sizeof(warren::walk::Group)) return nullptr;
    int level = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
        return nullptr;
    }
    std::atexit(warren::walk::leave);
    return new warren::walk::MpiGroup();
}
