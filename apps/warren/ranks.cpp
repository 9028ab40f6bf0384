// SPDX-License-Identifier: Apache-2.0
// Before the ranks are joined only the environment identifies them. A command that does not support
// several ranks can therefore report that once without using MPI.
#include "apps/warren/ranks.hpp"

#include "apps/warren/host_walk.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"
#include "walk/launch.hpp"

namespace warren::cli {

namespace {

walk::Group* group = nullptr;

void receive(u32 from, u8 what, std::string_view bytes) {
    switch (static_cast<RankMessage>(what)) {
        case RankMessage::output:
            return print_bytes(bytes);
        case RankMessage::complaint:
            return relay_complaint(bytes);
        case RankMessage::failure:
            return FailureList::receive(bytes);
        case RankMessage::progress:
            return Progress::receive(from, bytes);
    }
}

}  // namespace

bool join_ranks(bool spans_ranks) {
    const walk::Launch launch = walk::launch_of_environment();
    if (launch.is_alone()) return true;
    std::string problem;
    if (launch.is_refused()) {
        problem = launch.refusal();
    } else if (!spans_ranks) {
        problem = "is for one process: start it without mpirun";
    }
    if (!problem.empty()) {
        if (launch.rank == 0) complain({problem});
        return false;
    }
    group = walk::mpi_group(problem);
    if (!problem.empty()) {
        // MPI may be missing on one machine only, so the first process on each machine reports it.
        if (launch.is_first_here) {
            complain({"started by ", launch.launcher, ", but cannot use MPI: ", problem});
        }
        return false;
    }
    if (group != nullptr) group->set_receiver(receive);
    return true;
}

bool leave_to_rank_0() {
    const bool is_done = rank_number() != 0;
    flush_ranks();
    group = nullptr;
    return is_done;
}

void flush_ranks() {
    if (group != nullptr) group->flush();
}

walk::Group* rank_group() {
    return group;
}

u32 rank_number() {
    return group == nullptr ? 0 : group->rank();
}

u32 rank_count() {
    return group == nullptr ? 1 : group->ranks();
}

std::string share_over_ranks(std::string_view of_rank_0) {
    return group == nullptr ? std::string(of_rank_0) : group->share(of_rank_0);
}

std::vector<std::string> gather_over_ranks(std::string_view own) {
    if (group == nullptr) return {std::string(own)};
    return group->gather(own);
}

void send_to_rank_0(RankMessage what, std::string_view bytes) {
    group->send_to_rank_0(static_cast<u8>(what), bytes);
}

}  // namespace warren::cli
