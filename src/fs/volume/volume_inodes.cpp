// SPDX-License-Identifier: Apache-2.0
// The public calls on inodes: attributes, extended attributes, references.
#include "base/out_of_memory.hpp"
#include "fs/core/permission.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

using ops::Verb;

Result<Attributes> Volume::attributes(Handle handle, Hold hold) {
    VolumeImplementation& volume = *implementation_;
    return volume.ask<Verb::get_attributes>([&](ops::Command& command) {
        command.handle = handle;
        command.references = volume.references_for(hold, false);
    });
}

Result<Attributes> Volume::set_attributes(const Caller& caller, Handle handle,
                                          const AttributeChange& change) {
    VolumeImplementation& volume = *implementation_;
    const i64 now = now_nanoseconds();
    const u32 rest = change.which & ~static_cast<u32>(AttributeChange::size);
    const bool resizes = rest != change.which;
    if (resizes) {
        WARREN_TRY(check_access(caller, handle, core::may_write));
        if (change.new_size > format::file_size_max) return Errc::file_too_big;
    }
    // Changes that may be refused come first, because a call that fails must not truncate the file.
    const Result<Attributes> changed = volume.ask<Verb::set_attributes>([&](ops::Command& command) {
        set_subject(command, handle, caller);
        command.change = change;
        command.change.which = rest;
        command.now = now;
    });
    if (!changed || !resizes) return changed;
    const bool sets_time = (rest & AttributeChange::modified) != 0;
    WARREN_TRY(or_no_memory([&] {
        const std::unique_lock lock(volume.data_lock(handle.inode));
        return volume.resize_locked(handle, change.new_size, sets_time ? 0 : now);
    }));
    return attributes(handle);
}

Result<Handle> VolumeImplementation::handle_of(u64 inode) {
    return ask<Verb::handle_of>([&](ops::Command& command) { command.from = inode; });
}

Result<Attributes> VolumeImplementation::attributes_of(u64 inode) {
    return ask<Verb::attributes_of>([&](ops::Command& command) { command.from = inode; });
}

Result<Handle> Volume::handle_of(u64 inode) {
    return implementation_->handle_of(inode);
}

Errc Volume::check_access(const Caller& caller, Handle handle, u32 mask) {
    return implementation_->ask<Verb::check_access>([&](ops::Command& command) {
        set_subject(command, handle, caller);
        command.mode = mask;
    });
}

Errc Volume::open_file(Handle handle) {
    VolumeImplementation& volume = *implementation_;
    if (volume.is_read_only()) return attributes(handle).code();
    return volume.ask<Verb::open_file>([&](ops::Command& command) { command.handle = handle; });
}

Errc Volume::release(Handle handle) {
    return implementation_->release(handle);
}

Errc VolumeImplementation::release(Handle handle) {
    if (is_read_only()) return Errc::ok;
    const Result<bool> must_reclaim =
        ask<Verb::release_file>([&](ops::Command& command) { command.handle = handle; });
    if (!must_reclaim) return must_reclaim.code();
    return *must_reclaim ? reclaim(handle) : Errc::ok;
}

void Volume::forget(Handle handle, u64 count) {
    VolumeImplementation& volume = *implementation_;
    if (volume.is_read_only()) return;
    static_cast<void>(volume.ask<Verb::forget>([&](ops::Command& command) {
        command.handle = handle;
        command.references = count;
    }));
}

Result<u64> Volume::get_attribute(Handle handle, std::string_view name,
                                  std::span<std::byte> target) {
    return implementation_->ask<Verb::get_attribute>([&](ops::Command& command) {
        set_named(command, handle, name);
        command.buffer = target.data();
        command.buffer_bytes = target.size();
    });
}

Result<u64> Volume::list_attributes(Handle handle, std::span<char> target) {
    return implementation_->ask<Verb::list_attributes>([&](ops::Command& command) {
        set_subject(command, handle);
        command.buffer = target.data();
        command.buffer_bytes = target.size();
    });
}

Errc Volume::set_attribute(const Caller& caller, Handle handle, std::string_view name,
                           std::span<const std::byte> value, AttributeSet how) {
    return implementation_->ask<Verb::set_attribute>([&](ops::Command& command) {
        set_named(command, handle, name, caller);
        command.text = value.data();
        command.text_bytes = value.size();
        command.how = static_cast<u8>(how);
        command.now = now_nanoseconds();
    });
}

Errc Volume::remove_attribute(const Caller& caller, Handle handle, std::string_view name) {
    return implementation_->ask<Verb::remove_attribute>([&](ops::Command& command) {
        set_named(command, handle, name, caller);
        command.now = now_nanoseconds();
    });
}

}  // namespace warren
