// SPDX-License-Identifier: Apache-2.0
// What does it cost that a walk has two ranks on one machine? Rank 0 prints the costs that the
// simulator of walks takes (tests/support/walk_simulator.hpp), as words for walk_simulation:
//
//   --message  to send or to take one: sent in bursts, taken when all are there
//   --near     latency: what a round between ranks that never sleep takes beside its messages
//   --wake     what the same round takes more, for each end, if a message must wake it
//   --byte     what large messages take more than small ones
//   --open     to open and close a directory on the path, from the root, to what was handed over
//
//   mpirun -np 2 walk_costs
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/support/report.hpp"
#include "warren/walk_group.hpp"

namespace {

using namespace warren;
using bench::now_seconds;
using bench::require;
using bench::Sample;

constexpr u32 rounds = 2000;
constexpr u32 bursts = 200;
constexpr u32 burst_messages = 32;   // fewer than MPI keeps without the other side
constexpr size_t small_bytes = 120;  // a request for work, or a directory and its path
constexpr size_t large_bytes = 256 * kib;
constexpr u32 large_rounds = 200;
constexpr u32 longest_wait_us = 5000;
constexpr u32 idle_us = 200;  // until a core with nothing to do rests, as between items of cp

class Player {
 public:
    explicit Player(walk::Group& group) : group_(group), other_(1 - group.rank()) {}

    /// Seconds from sending a message to receiving the answer, on rank 0.
    double round(size_t bytes, u32 times, bool sleeps) {
        Sample taken;
        for (u32 number = 0; number < times; ++number) {
            if (sleeps && group_.rank() == 0) ::usleep(idle_us);
            const double begin = now_seconds();
            if (group_.rank() == 0) group_.send(other_, std::string(bytes, 'x'));
            take(sleeps);
            if (group_.rank() != 0) group_.send(other_, std::string(bytes, 'x'));
            taken.add(now_seconds() - begin);
        }
        return taken.median();
    }

    /// Seconds to send a message (rank 0), or to receive one that has arrived (rank 1).
    double message() {
        Sample taken;
        for (u32 burst = 0; burst < bursts; ++burst) {
            double begin = now_seconds();
            if (group_.rank() == 0) {
                for (u32 number = 0; number < burst_messages; ++number)
                    group_.send(other_, std::string(small_bytes, 'x'));
                taken.add((now_seconds() - begin) / burst_messages);
                take(true);
                continue;
            }
            take(true);
            ::usleep(idle_us);  // the others come meanwhile
            begin = now_seconds();
            for (u32 number = 1; number < burst_messages; ++number)
                take(false);
            taken.add((now_seconds() - begin) / (burst_messages - 1));
            group_.send(other_, std::string(small_bytes, 'x'));
        }
        return taken.median();
    }

 private:
    void take(bool sleeps) {
        u32 from = 0;
        std::string message;
        while (!group_.receive(from, message)) {
            if (sleeps) group_.wait(longest_wait_us);
        }
    }

    walk::Group& group_;
    u32 other_;
};

double open_seconds() {
    const int folder = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(folder >= 0, "cannot open /");
    const double begin = now_seconds();
    for (u32 number = 0; number < rounds; ++number) {
        const int next = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        require(next >= 0 && ::close(next) == 0, "cannot open a directory");
    }
    const double taken = now_seconds() - begin;
    ::close(folder);
    return taken / rounds;
}

}  // namespace

int main() {
    std::string problem;
    walk::Group* const group = walk::mpi_group(problem);
    require(group != nullptr && group->ranks() == 2, "start it by mpirun -np 2 " + problem);
    group->begin_walk();
    Player player(*group);
    player.round(small_bytes, rounds, false);  // unmeasured
    const double own = player.message();
    const double awake = player.round(small_bytes, rounds, false);
    const double asleep = player.round(small_bytes, rounds, true);
    const double large = player.round(large_bytes, large_rounds, false);
    group->end_walk();
    const std::vector<std::string> all = group->gather(std::to_string(1e9 * own));
    if (group->rank() != 0) return 0;
    const double message = 1e-9 * (std::stod(all[0]) + std::stod(all[1])) / 2;
    const double near = std::max(0.0, awake / 2 - 2 * message);
    const double wake = std::max(0.0, (asleep - awake) / 2);
    const double byte = std::max(0.0, (large - awake) / 2 / (large_bytes - small_bytes));
    std::printf("--message %.3e --near %.3e --wake %.3e --byte %.3e --open %.3e\n", message, near,
                wake, byte, open_seconds());
    return 0;
}
