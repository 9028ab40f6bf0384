// SPDX-License-Identifier: Apache-2.0
// The inode side of the public interface: attributes, extended attributes, references.
#include "fs/ops/attributes.hpp"
#include "fs/ops/references.hpp"
#include "fs/ops/set_attributes.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

Result<Attributes> Volume::attributes(Handle handle, Hold hold) {
    VolumeImplementation& volume = *implementation_;
    const bool holds = hold == Hold::yes && !volume.is_read_only();
    return volume.run([&](CpuOperation& op) {
        return ops::get_attributes(op, handle, holds ? ops::one_lookup : 0);
    });
}

Result<Attributes> Volume::set_attributes(const Caller& caller, Handle handle,
                                          const AttributeChange& change) {
    VolumeImplementation& volume = *implementation_;
    const core::Credentials who = credentials_of(caller);
    const i64 now = now_nanoseconds();
    AttributeChange rest = change;
    rest.which &= ~static_cast<u32>(AttributeChange::size);
    const bool resizes = rest.which != change.which;
    if (resizes) {
        WARREN_TRY(volume.run(
            [&](CpuOperation& op) { return ops::check_access(op, who, handle, core::may_write); }));
        if (change.new_size > format::file_size_max) return Errc::file_too_big;
    }
    // What may be refused comes first: a file must not be cut by a call that fails.
    const Result<Attributes> changed = volume.run(
        [&](CpuOperation& op) { return ops::set_attributes(op, who, handle, rest, now); });
    if (!changed || !resizes) return changed;
    const bool sets_time = (rest.which & AttributeChange::modified) != 0;
    WARREN_TRY(volume.resize_file(handle, change.new_size, sets_time ? 0 : now));
    return attributes(handle);
}

Result<Handle> Volume::handle_of(u64 inode) {
    return implementation_->run([&](CpuOperation& op) { return ops::handle_of(op, inode); });
}

Errc Volume::check_access(const Caller& caller, Handle handle, u32 mask) {
    const core::Credentials who = credentials_of(caller);
    return implementation_->run(
        [&](CpuOperation& op) { return ops::check_access(op, who, handle, mask); });
}

Errc Volume::open_file(Handle handle) {
    VolumeImplementation& volume = *implementation_;
    if (volume.is_read_only()) {
        const Result<Attributes> exists = attributes(handle);
        return exists.code();
    }
    return volume.run([&](CpuOperation& op) { return ops::open_file(op, handle); });
}

Errc Volume::release(Handle handle) {
    VolumeImplementation& volume = *implementation_;
    if (volume.is_read_only()) return Errc::ok;
    const Result<ops::Released> released =
        volume.run([&](CpuOperation& op) { return ops::release_file(op, handle); });
    if (!released) return released.code();
    return released->must_reclaim ? volume.reclaim(handle) : Errc::ok;
}

void Volume::forget(Handle handle, u64 count) {
    VolumeImplementation& volume = *implementation_;
    if (volume.is_read_only()) return;
    static_cast<void>(volume.run([&](CpuOperation& op) { return ops::forget(op, handle, count); }));
}

Result<u64> Volume::get_attribute(Handle handle, std::string_view name,
                                  std::span<std::byte> target) {
    const core::Credentials anybody{.check = false};
    return implementation_->run([&](CpuOperation& op) {
        return ops::get_attribute(op, anybody, handle, name.data(), static_cast<u32>(name.size()),
                                  target.data(), target.size());
    });
}

Result<u64> Volume::list_attributes(Handle handle, std::span<char> target) {
    const core::Credentials anybody{.check = false};
    return implementation_->run([&](CpuOperation& op) {
        return ops::list_attributes(op, anybody, handle, target.data(), target.size());
    });
}

Errc Volume::set_attribute(const Caller& caller, Handle handle, std::string_view name,
                           std::span<const std::byte> value, AttributeSet how) {
    const core::Credentials who = credentials_of(caller);
    return implementation_->run([&](CpuOperation& op) {
        return ops::set_attribute(op, who, handle, name.data(), static_cast<u32>(name.size()),
                                  value.data(), value.size(), how, now_nanoseconds());
    });
}

Errc Volume::remove_attribute(const Caller& caller, Handle handle, std::string_view name) {
    const core::Credentials who = credentials_of(caller);
    return implementation_->run([&](CpuOperation& op) {
        return ops::remove_attribute(op, who, handle, name.data(), static_cast<u32>(name.size()),
                                     now_nanoseconds());
    });
}

}  // namespace warren
