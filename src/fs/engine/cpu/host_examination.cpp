// SPDX-License-Identifier: Apache-2.0
// The quick check on the host. In each phase the cores divide the items among themselves in runs.
#include <atomic>

#include "base/stopwatch.hpp"
#include "fs/bulk/quick_check/examine_run.hpp"
#include "fs/engine/cpu/exam_memory.hpp"
#include "fs/engine/cpu/host_sums.hpp"
#include "fs/engine/cpu/thread_pool.hpp"

namespace warren {
namespace {

using ops::examine::ExamState;

/// Fewer frames are checked by the calling thread alone, faster than other threads could be woken.
constexpr u32 frames_shared_min = 8;

class HostExecutor {
 public:
    explicit HostExecutor(ThreadPool& thread_pool) : thread_pool_(thread_pool) {}

    template <class Phase>
    void each(u64 count, const Phase& phase) {
        thread_pool_.for_each(
            count, [&phase](const ThreadTeam& team, u64 i) { phase(team, HostSums{}, i); });
    }
    ExamState look(const ExamState& state) { return state; }
    void reset(u32& word) { word = 0; }

 private:
    ThreadPool& thread_pool_;
};

}  // namespace

Errc examine_on_host(const ExamTables& tables, const ReadDisk& read, Examined& examined) {
    const Stopwatch opening;
    ExamMemory memory;
    WARREN_TRY(memory.open(tables));
    ThreadPool thread_pool(memory.exam().frames < frames_shared_min ? 1 : 0);
    examined.start_seconds = opening.seconds();

    const Stopwatch loading;
    std::atomic<bool> has_failed{false};
    thread_pool.for_each(memory.exam().frames, [&](const ThreadTeam&, u64 i) {
        if (memory.load(i, read) != Errc::ok) has_failed.store(true, std::memory_order_relaxed);
    });
    examined.load_seconds = examined.disk_seconds = loading.seconds();
    examined.state.flaws = 1;
    if (has_failed.load(std::memory_order_relaxed)) return Errc::ok;
    const Stopwatch examining;
    HostExecutor executor(thread_pool);
    examined.state = ops::examine::run(executor, memory.exam());
    examined.exam_seconds = examining.seconds();
    return Errc::ok;
}

}  // namespace warren
