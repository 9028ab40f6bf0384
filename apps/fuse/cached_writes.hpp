// SPDX-License-Identifier: Apache-2.0
// Writes of the kernel's page cache, which syncfs(2) sends to the daemon but does not wait for.
// They reach the daemon in the order in which the kernel has queued them, and are carried out by
// several threads at once. Any thread may use it.
#pragma once

#include <array>
#include <atomic>
#include <mutex>

#include "warren/types.hpp"

namespace warren::fuse {

class CachedWrites {
 public:
    /// Marks a write as being carried out, for the lifetime of this object.
    class Running {
     public:
        explicit Running(CachedWrites& writes);
        ~Running();
        Running(const Running&) = delete;
        Running& operator=(const Running&) = delete;

     private:
        CachedWrites& writes_;
        u32 turn_;
    };

    /// Waits until the writes are over that the kernel had queued before this call for the mount
    /// with this device number. Where the kernel does not tell how many they are and writes never
    /// pause, these are taken to be the ones of the next ten seconds.
    void wait(u32 device_minor);

 private:
    void wait_for_running();
    u64 running() const { return running_[0].load() + running_[1].load(); }

    // All accesses are sequentially consistent: a write that counts itself in a turn that is ending
    // sees that, or is seen.
    std::array<std::atomic<u64>, 2> running_{};  // by turn
    std::atomic<u32> turn_{0};
    std::atomic<u64> begun_{0};
    std::mutex turning_;
};

}  // namespace warren::fuse
