// SPDX-License-Identifier: Apache-2.0
// The ranks of an MPI job. This file alone is the plug-in libwarren_walk_mpi.so: a program that was
// not started by mpirun never loads it, and needs no MPI on its machine.
//
// Invariant: all MPI calls come from the thread that has loaded the plug-in. During a walk only
// non-blocking messages between two ranks are used, on a communicator of that walk.
#include <mpi.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <string>
#include <vector>

#include "warren/walk_group.hpp"

namespace warren::walk {

namespace {

constexpr size_t arriving_most = 64;

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
    std::vector<std::string> gather(std::string_view own) override;

 private:
    struct Letter {
        MPI_Request request = MPI_REQUEST_NULL;
        std::string bytes;
        u32 from = 0;
    };
    void forget_sent();
    void begin_arrivals();

    u32 rank_ = 0;
    std::vector<u32> nodes_;
    MPI_Comm of_walk_ = MPI_COMM_NULL;
    std::list<Letter> sent_;
    std::list<Letter> arriving_;
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
    MPI_Isend(letter.bytes.data(), static_cast<int>(letter.bytes.size()), MPI_BYTE,
              static_cast<int>(to), 0, of_walk_, &letter.request);
    forget_sent();
}

void MpiGroup::forget_sent() {
    for (auto letter = sent_.begin(); letter != sent_.end();) {
        int is_done = 0;
        MPI_Test(&letter->request, &is_done, MPI_STATUS_IGNORE);
        letter = is_done != 0 ? sent_.erase(letter) : std::next(letter);
    }
}

void MpiGroup::begin_arrivals() {
    while (arriving_.size() < arriving_most) {
        int is_there = 0;
        MPI_Message message{};
        MPI_Status status{};
        MPI_Improbe(MPI_ANY_SOURCE, 0, of_walk_, &is_there, &message, &status);
        if (is_there == 0) return;
        int size = 0;
        MPI_Get_count(&status, MPI_BYTE, &size);
        Letter& letter = arriving_.emplace_back();
        letter.from = static_cast<u32>(status.MPI_SOURCE);
        letter.bytes.resize(static_cast<size_t>(size));
        MPI_Imrecv(letter.bytes.data(), size, MPI_BYTE, &message, &letter.request);
    }
}

/// Handed over in the order in which they were met, however long each takes to be here.
bool MpiGroup::receive(u32& from, std::string& message) {
    forget_sent();
    begin_arrivals();
    if (arriving_.empty()) return false;
    int is_done = 0;
    MPI_Test(&arriving_.front().request, &is_done, MPI_STATUS_IGNORE);
    if (is_done == 0) return false;
    from = arriving_.front().from;
    message = std::move(arriving_.front().bytes);
    arriving_.pop_front();
    return true;
}

std::vector<std::string> MpiGroup::gather(std::string_view own) {
    const int size = static_cast<int>(own.size());
    std::vector<int> sizes(ranks());
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
    wait_for(request);
    std::vector<int> places(ranks());
    for (size_t other = 1; other < places.size(); ++other)
        places[other] = places[other - 1] + sizes[other - 1];
    std::string all(static_cast<size_t>(places.back()) + static_cast<size_t>(sizes.back()), '\0');
    MPI_Iallgatherv(own.data(), size, MPI_BYTE, all.data(), sizes.data(), places.data(), MPI_BYTE,
                    MPI_COMM_WORLD, &request);
    wait_for(request);
    std::vector<std::string> parts;
    for (size_t other = 0; other < places.size(); ++other) {
        parts.push_back(
            all.substr(static_cast<size_t>(places[other]), static_cast<size_t>(sizes[other])));
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
extern "C" __attribute__((visibility("default"))) warren::walk::Group* warren_walk_mpi_1(
    size_t group_bytes) {
    if (group_bytes != sizeof(warren::walk::Group)) return nullptr;
    int level = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
        return nullptr;
    }
    std::atexit(warren::walk::leave);
    return new warren::walk::MpiGroup();
}
