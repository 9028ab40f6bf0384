// SPDX-License-Identifier: Apache-2.0
// All operations, instantiated for a thread.
#include "fs/engine/cpu/cpu_engine.hpp"

#include <atomic>

#include "fs/engine/cpu/host_file_memory.hpp"
#include "fs/ops/execute.hpp"

namespace warren {

ThreadTeam this_team() {
    static std::atomic<u32> count{0};
    thread_local const u32 worker = count.fetch_add(1, std::memory_order_relaxed);
    return ThreadTeam{worker};
}

void CpuEngine::attempt(const ops::Command& command, ops::Reply& reply) {
    core::Operation<ThreadTeam> op(this_team(), store_);
    ops::execute(op, command, reply);
    core::finish(op);
}

Errc CpuEngine::make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) {
    auto made = std::make_unique<HostFileMemory>(bytes);
    if (made->data() == nullptr) return Errc::no_memory;
    memory = std::move(made);
    return Errc::ok;
}

}  // namespace warren
