// SPDX-License-Identifier: Apache-2.0
// The name side of the public interface: each call is one operation run by the driver, and what a
// removal leaves to do.
#include <algorithm>
#include <cstring>

#include "fs/ops/create.hpp"
#include "fs/ops/read_link.hpp"
#include "fs/ops/rename.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {
namespace {

u32 length_of(std::string_view name) {
    return static_cast<u32>(std::min<std::size_t>(name.size(), format::name_length_max + 1));
}

u64 references_for(const VolumeImplementation& volume, Hold hold, bool open) {
    // Nothing can be removed from a volume that is read only, so nothing needs to be held.
    if (volume.is_read_only()) return 0;
    return (hold == Hold::yes ? ops::one_lookup : 0) + (open ? ops::one_open : 0);
}

ops::CreateArguments arguments_of(const VolumeImplementation& volume,
                                  const CreateOptions& options) {
    ops::CreateArguments arguments;
    arguments.mode = options.mode;
    arguments.device = options.device;
    arguments.target = options.target.data();
    arguments.target_length =
        static_cast<u32>(std::min<std::size_t>(options.target.size(), 1u << 16));
    arguments.references = references_for(volume, options.hold, options.open);
    arguments.now = now_nanoseconds();
    return arguments;
}

}  // namespace

Result<Attributes> Volume::lookup(const Caller& caller, Handle directory, std::string_view name,
                                  Hold hold) {
    VolumeImplementation& volume = *implementation_;
    const core::Credentials who = credentials_of(caller);
    const u64 references = references_for(volume, hold, false);
    return volume.run([&](CpuOperation& op) {
        return ops::lookup(op, who, directory, name.data(), length_of(name), references);
    });
}

Result<Attributes> Volume::create(const Caller& caller, Handle directory, std::string_view name,
                                  const CreateOptions& options) {
    VolumeImplementation& volume = *implementation_;
    const core::Credentials who = credentials_of(caller);
    const ops::CreateArguments arguments = arguments_of(volume, options);
    return volume.run([&](CpuOperation& op) {
        return ops::create(op, who, directory, name.data(), length_of(name), arguments);
    });
}

Result<Attributes> Volume::create_unnamed(const Caller& caller, Handle directory,
                                          const CreateOptions& options) {
    VolumeImplementation& volume = *implementation_;
    const core::Credentials who = credentials_of(caller);
    ops::CreateArguments arguments = arguments_of(volume, options);
    arguments.references |= ops::one_open;
    return volume.run(
        [&](CpuOperation& op) { return ops::create_unnamed(op, who, directory, arguments); });
}

Result<Attributes> Volume::link(const Caller& caller, Handle file, Handle directory,
                                std::string_view name, Hold hold) {
    VolumeImplementation& volume = *implementation_;
    const core::Credentials who = credentials_of(caller);
    const u64 references = references_for(volume, hold, false);
    return volume.run([&](CpuOperation& op) {
        return ops::link(op, who, file, directory, name.data(), length_of(name), references,
                         now_nanoseconds());
    });
}

Errc Volume::unlink(const Caller& caller, Handle directory, std::string_view name) {
    VolumeImplementation& volume = *implementation_;
    const core::Credentials who = credentials_of(caller);
    const Result<ops::Removed> removed = volume.run([&](CpuOperation& op) {
        return ops::unlink(op, who, directory, name.data(), length_of(name), false,
                           now_nanoseconds());
    });
    return removed ? volume.settle(*removed) : removed.code();
}

Errc Volume::remove_directory(const Caller& caller, Handle directory, std::string_view name) {
    VolumeImplementation& volume = *implementation_;
    const core::Credentials who = credentials_of(caller);
    const Result<ops::Removed> removed = volume.run([&](CpuOperation& op) {
        return ops::unlink(op, who, directory, name.data(), length_of(name), true,
                           now_nanoseconds());
    });
    return removed ? volume.settle(*removed) : removed.code();
}

Errc Volume::rename(const Caller& caller, Handle from, std::string_view name, Handle to,
                    std::string_view new_name, Rename how) {
    VolumeImplementation& volume = *implementation_;
    const core::Credentials who = credentials_of(caller);
    ops::MoveWalk walk;
    const Result<ops::Removed> removed = volume.run([&](CpuOperation& op) {
        return ops::rename(op, who, from, name.data(), length_of(name), to, new_name.data(),
                           length_of(new_name), how, now_nanoseconds(), &walk);
    });
    return removed ? volume.settle(*removed) : removed.code();
}

namespace {

/// Cookies leave room below the first key for "." and "..".
constexpr u64 cookie_of_key(u64 key) {
    return key + 3;
}

/// The live entries of a private leaf with keys from `from` on, in key order.
std::vector<std::pair<u64, u32>> sorted_entries(const format::DirectoryLeaf& leaf, u64 from) {
    std::vector<std::pair<u64, u32>> order;
    order.reserve(format::leaf_entries_max);
    for (u32 i = 0; i < format::leaf_entries_max; ++i) {
        if (leaf.slots[i].inode() == 0) continue;
        const u64 key = format::entry_key(leaf.hashes[i], leaf.slots[i]);
        if (key >= from) order.emplace_back(key, i);
    }
    std::sort(order.begin(), order.end());
    return order;
}

}  // namespace

Errc Volume::read_directory(Handle directory, u64 cookie,
                            const std::function<bool(const DirectoryEntry&)>& emit) {
    VolumeImplementation& volume = *implementation_;
    const auto leaf = std::make_unique<format::DirectoryLeaf>();
    u64 from = cookie < 3 ? 0 : cookie - 3 + 1;
    for (;;) {
        const Result<u64> next = volume.run(
            [&](CpuOperation& op) { return ops::read_leaf(op, directory, from, *leaf); });
        if (!next) return next.code();
        for (const auto& [key, slot] : sorted_entries(*leaf, from)) {
            const format::DirectorySlot& at = leaf->slots[slot];
            const char* heap = reinterpret_cast<const char*>(leaf->heap);
            if (at.name_offset() + at.name_length() > format::leaf_heap_bytes) {
                return Errc::corrupt;
            }
            DirectoryEntry entry;
            entry.name = {heap + at.name_offset(), at.name_length()};
            entry.inode = at.inode();
            entry.type = at.type();
            entry.cookie = cookie_of_key(key);
            if (!emit(entry)) return Errc::ok;
        }
        if (*next == core::key_end) return Errc::ok;
        from = *next;
    }
}

Result<Attributes> Volume::resolve(const Caller& caller, std::string_view path) {
    Result<Attributes> at = attributes(root());
    while (at) {
        const std::size_t start = path.find_first_not_of('/');
        if (start == std::string_view::npos) return at;
        path.remove_prefix(start);
        const std::string_view name = path.substr(0, path.find('/'));
        path.remove_prefix(name.size());
        if (name == "." || name == "..") {
            if ((at->mode & format::type_mask) != format::type_directory) {
                return Errc::not_directory;
            }
            WARREN_TRY(check_access(caller, at->handle, core::may_execute));
            if (name == ".") continue;
            const Result<Handle> parent = handle_of(at->parent);
            if (!parent) return parent.code();
            at = attributes(*parent);
            continue;
        }
        at = lookup(caller, at->handle, name);
    }
    return at;
}

Result<std::string> Volume::read_link(Handle link) {
    VolumeImplementation& volume = *implementation_;
    char target[format::target_length_max + 1];
    const Result<u64> length = volume.run(
        [&](CpuOperation& op) { return ops::read_link(op, link, target, sizeof target); });
    if (!length) return length.code();
    return std::string(target, *length);
}

}  // namespace warren
