// SPDX-License-Identifier: Apache-2.0
// Which GPUs there are and what they can do. The runtime is linked statically, so one program runs
// on machines with and without a driver; without one, the number of GPUs is 0.
#pragma once

#include <string>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::gpu {

struct DeviceInfo {
    int index = 0;
    std::string name;
    u64 memory_bytes = 0;
    u64 memory_free_bytes = 0;
    int multiprocessors = 0;
    int capability_major = 0;
    int capability_minor = 0;
    int driver_version = 0;  // CUDA version, 1000 * major + 10 * minor
    int runtime_version = 0;
    bool has_virtual_memory = false;  // address ranges can be reserved, and mapped in parts
    bool shares_through_mps = false;  // this process is a client of an MPS server
};

/// The number of GPUs that this program can use; 0 without a driver.
int device_count();

/// Whether this process has opened a stream, and so has already spent the tenths of a second that a
/// GPU takes to start. Does not call the driver.
bool was_used();

/// Describes GPU `index`. Errc::no_device if there is none; see last_failure().
Errc describe_device(int index, DeviceInfo& info);

/// Describes GPU `index` for the file system. Errc::no_device if there is none, Errc::not_supported
/// if it has no virtual memory; see last_failure().
Errc choose_device(u32 index, DeviceInfo& info);

/// The current device of the calling thread; -1 if there is none.
int current_device();

/// The number of multiprocessors of the current device; see last_failure().
Result<u32> multiprocessors();

/// Makes GPU `index` the current device of the calling thread.
Errc use_device(int index);

/// Selects GPU `index` for the calling thread, which may belong to a host program that has another
/// one selected, for the lifetime of this object.
class DeviceScope {
 public:
    explicit DeviceScope(int index);
    /// Selects none: code() is `refused`.
    explicit DeviceScope(Errc refused) : code_(refused) {}
    ~DeviceScope();
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;
    /// Errc::ok if it is selected.
    Errc code() const { return code_; }

 private:
    int before_ = -1;  // the GPU to select again; -1: none
    Errc code_;
};

}  // namespace warren::gpu
