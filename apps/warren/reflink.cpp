// SPDX-License-Identifier: Apache-2.0
// FICLONE is tried until a file system does not support it. Bytes that copy_file_range(2) leaves
// are copied by the caller.
#include "apps/warren/reflink.hpp"

#include <algorithm>
#include <cerrno>

#include "apps/fuse/mount_table.hpp"

namespace warren::cli {

namespace {

Fault not_shared(int error) {
    return {error, "share blocks with", true};
}

u32 major_of(u64 device) {
    return static_cast<u32>(device >> 32);
}

u32 minor_of(u64 device) {
    return static_cast<u32>(device);
}

}  // namespace

Fault Reflinks::copy(int from, const Place& to, bool must, bool& done) {
    done = false;
    struct stat source {};
    struct stat target {};
    if (::fstat(from, &source) != 0) return {errno, "stat"};
    if (::fstat(to.file, &target) != 0) return {errno, "stat", true};
    const u64 device = device_of(target);
    if (!is_warren(device)) {
        if (!must && !may_clone_.load(std::memory_order_relaxed)) return {};
        const int error = clone_file(from, to.file);
        done = error == 0;
        if (error == EOPNOTSUPP || error == ENOTTY) {
            may_clone_.store(false, std::memory_order_relaxed);
        }
        return must ? not_shared(error) : Fault{};
    }
    if (device_of(source) != device) return must ? not_shared(EXDEV) : Fault{};
    const u64 size = static_cast<u64>(source.st_size);
    if (const Fault fault = copy_on_mount(from, size, to, done)) return fault;
    if (!must) return {};
    return done ? check_shared(to, device) : not_shared(EOPNOTSUPP);
}

Fault Reflinks::copy_on_mount(int from, u64 size, const Place& to, bool& done) {
    u64 offset = 0;
    const Fault fault = copy_in_kernel(from, to.file, offset, size);
    done = !fault && offset >= size;
    return fault;
}

/// Asks the daemon how much of a file on its volume is shared.
Fault Reflinks::check_shared(const Place& file, u64 device) {
    const std::lock_guard lock(mutex_);
    std::optional<fuse::ControlConnection>& daemon = daemons_[device];
    if (!daemon) daemon = fuse::ControlConnection::for_device(major_of(device), minor_of(device));
    FileSpace space;
    Errc code = static_cast<Errc>(ECONNREFUSED);
    if (daemon) {
        code = daemon->scan(path_for_system(file), {.counts_shared = true},
                            [&](const Scanned& entry) { space = entry.space; });
    }
    if (code != Errc::ok) {
        daemon.reset();
        return {static_cast<i32>(code), "ask the daemon of the mount about", true};
    }
    return space.exclusive() == 0 ? Fault{} : Fault{EOPNOTSUPP, "share all blocks with", true};
}

bool Reflinks::is_warren(u64 device) {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = is_warren_.try_emplace(device, false);
    if (is_new) {
        entry->second =
            std::ranges::any_of(fuse::read_mount_table(), [&](const fuse::MountedPlace& place) {
                return place.is_warren() && place.device_major == major_of(device) &&
                       place.device_minor == minor_of(device);
            });
    }
    return entry->second;
}

}  // namespace warren::cli
