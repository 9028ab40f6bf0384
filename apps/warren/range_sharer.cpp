// SPDX-License-Identifier: Apache-2.0
// Each of the three methods may share only a part of a long range, and is then called for the rest.
#include "apps/warren/range_sharer.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "apps/fuse/control_protocol.hpp"
#include "apps/warren/mounts.hpp"
#include "base/descriptor.hpp"
#include "base/last_error.hpp"
#include "fs/volume/open_while.hpp"

namespace warren::cli {

namespace {

/// A call that shares a part of a range; offsets are relative to the range.
using Step = std::function<Result<Deduped>(u64 done, u64 length)>;

Errc share_by_steps(u64 length, RateLimit& limit, u64& shared_bytes, const Step& step) {
    for (u64 done = 0; done < length;) {
        WARREN_LET(part, step(done, length - done));
        if (part->differs) return Errc::stale;
        if (part->bytes == 0) return Errc::ok;  // less than a block is left
        shared_bytes += part->bytes;
        done += part->bytes;
        limit.wait_after(2 * part->bytes);
    }
    return Errc::ok;
}

/// Calls FIDEDUPERANGE; see ioctl_fideduperange(2).
Result<Deduped> ask_kernel(int from, u64 offset, int to, u64 target_offset, u64 length) {
    constexpr u64 most_at_once = 16 * mib;
    alignas(
        file_dedupe_range) char memory[sizeof(file_dedupe_range) + sizeof(file_dedupe_range_info)];
    std::memset(memory, 0, sizeof memory);
    auto* range = reinterpret_cast<file_dedupe_range*>(memory);
    range->src_offset = offset;
    range->src_length = std::min(length, most_at_once);
    range->dest_count = 1;
    file_dedupe_range_info& info = range->info[0];
    info.dest_fd = to;
    info.dest_offset = target_offset;
    int failure = ::ioctl(from, FIDEDUPERANGE, range) != 0 ? errno : 0;
    if (failure == 0 && info.status < 0) failure = -info.status;
    if (failure == ENOTTY || failure == EINVAL || failure == ENOSYS) failure = EOPNOTSUPP;
    if (failure != 0) return static_cast<Errc>(failure);
    return Deduped{info.bytes_deduped, info.status == FILE_DEDUPE_RANGE_DIFFERS};
}

}  // namespace

RangeSharer::HostSystem& RangeSharer::system_of(u64 device, const std::string& path) {
    const auto [entry, is_new] = systems_.try_emplace(device);
    HostSystem& system = entry->second;
    if (is_new) {
        system.daemon = fuse::ControlConnection::for_device(major(device), minor(device));
        system.is_out_of_reach = !system.daemon && is_on_warren_mount(path);
    }
    return system;
}

Errc RangeSharer::share_in_image(const FileRange& original, const FileRange& range, u64 length,
                                 u64& shared_bytes) {
    Volume* volume = session_.open(range.file.image, Access::write);
    if (volume == nullptr) return Errc::io;
    const Caller caller = command_caller();
    const auto find = [&](const std::string& path) {
        return PathWalker(*volume, caller).find(volume->root(), path, Follow::no);
    };
    WARREN_LET(source, find(original.file.path));
    const OpenWhile source_is_open(*volume, source->handle);
    WARREN_TRY(source_is_open.code());
    WARREN_LET(target, find(range.file.path));
    const OpenWhile target_is_open(*volume, target->handle);
    WARREN_TRY(target_is_open.code());
    return share_by_steps(length, limit_, shared_bytes, [&](u64 done, u64 left) {
        return volume->dedupe_range(caller, source->handle, original.offset + done, target->handle,
                                    range.offset + done, left);
    });
}

Errc RangeSharer::share_on_host(const FileRange& original, const FileRange& range, u64 length,
                                u64& shared_bytes) {
    struct stat facts, other;
    if (::stat(original.file.path.c_str(), &facts) != 0) return last_error();
    if (::stat(range.file.path.c_str(), &other) != 0) return last_error();
    HostSystem& system = system_of(facts.st_dev, original.file.path);
    if (system.is_out_of_reach) return daemon_out_of_reach;
    // Subvolumes of the same btrfs have different device numbers.
    const bool may_be_one = !system.daemon && !system_of(other.st_dev, range.file.path).daemon;
    if (facts.st_dev != other.st_dev && !may_be_one) return Errc::cross_device;
    // The daemon checks the right to write; the kernel wants a descriptor opened for writing.
    const int access = system.daemon ? O_RDONLY : O_RDWR;
    const Descriptor from(::open(original.file.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!from) return last_error();
    const Descriptor to(::open(range.file.path.c_str(), access | O_CLOEXEC));
    if (!to) return last_error();
    return share_by_steps(length, limit_, shared_bytes, [&](u64 done, u64 left) -> Result<Deduped> {
        const u64 offset = original.offset + done;
        const u64 target_offset = range.offset + done;
        if (!system.daemon) return ask_kernel(from.get(), offset, to.get(), target_offset, left);
        Deduped deduped;
        const Errc code =
            system.daemon->dedupe(from.get(), offset, to.get(), target_offset, left, deduped);
        if (code == Errc::ok) return deduped;
        const bool is_gone = code != fuse::other_protocol && system.daemon->is_broken();
        return is_gone ? daemon_out_of_reach : code;
    });
}

Errc RangeSharer::share(const FileRange& original, const FileRange& range, u64 length,
                        u64& shared_bytes) {
    if (original.file.image != range.file.image) return Errc::cross_device;
    return range.file.in_image() ? share_in_image(original, range, length, shared_bytes)
                                 : share_on_host(original, range, length, shared_bytes);
}

}  // namespace warren::cli
