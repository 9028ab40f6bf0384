// SPDX-License-Identifier: Apache-2.0
// What Verb::clone does not clone is done by the calls that programs use: share_range(), link() and
// those for extended attributes.
#include "fs/volume/tree_cloner.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/volume/host_scan.hpp"
#include "fs/volume/open_while.hpp"

namespace warren {

using ops::Verb;

namespace {

/// The name of the clone in the staging directory.
constexpr std::string_view young_name = "clone";

}  // namespace

const ClonedDirectory* ClonedDirectories::find(Handle source) {
    Shard& shard = shard_of(source.inode);
    const std::shared_lock lock(shard.mutex);
    const auto found = shard.of.find(source);
    return found != shard.of.end() ? &found->second : nullptr;
}

void ClonedDirectories::add(ClonedDirectory directory) {
    Shard& shard = shard_of(directory.source.inode);
    const std::lock_guard lock(shard.mutex);
    const Handle source = directory.source;
    shard.of.try_emplace(source, std::move(directory));
}

void ClonedDirectories::for_each(ThreadPool& thread_pool,
                                 const std::function<void(const ClonedDirectory&)>& body) {
    thread_pool.for_each(shards_.size(), [&](const ThreadTeam&, u64 i) {
        for (const auto& [source, directory] : shards_[i].of)
            body(directory);
    });
}

Errc TreeCloner::clone(Handle source, Handle directory, std::string_view name, ClonedTree& done) {
    WARREN_LET(from, api_.attributes(source));
    WARREN_TRY(check_target(*from, directory, name));
    WARREN_TRY(make_staging());
    Errc code = or_no_memory([&] { return grow(*from); });
    if (code == Errc::ok) code = attach(directory, name);
    remove_staging(code == Errc::ok);
    done.failed = std::move(failed_);
    if (code != Errc::ok) return code;
    done.files = files_.load(std::memory_order_relaxed);
    done.directories = directory_count_.load(std::memory_order_relaxed);
    return Errc::ok;
}

/// Whether `caller` may give the clone its name, and the name is free or that of an empty
/// directory.
Errc TreeCloner::check_target(const Attributes& source, Handle directory, std::string_view name) {
    WARREN_LET(parent, api_.attributes(directory));
    if (!format::is_directory(parent->mode)) return Errc::not_directory;
    WARREN_TRY(api_.check_access(caller_, directory, core::may_write | core::may_execute));
    if (format::is_directory(source.mode)) WARREN_TRY(check_not_below(source.handle, directory));
    if (name.empty()) return Errc::no_entry;  // otherwise reported only after everything is cloned
    const Result<Attributes> there = api_.lookup(unchecked, directory, name);
    replaces_ = there.code() == Errc::ok;
    if (!replaces_) return there.code() == Errc::no_entry ? Errc::ok : there.code();
    if (!format::is_directory(there->mode) || !format::is_directory(source.mode))
        return Errc::exists;
    if (there->handle == source.handle) return Errc::invalid;
    WARREN_LET(names, volume_.ask<Verb::count_names>(command_on(there->handle)));
    if (*names != 0) return Errc::not_empty;
    // The owner may remove it even if its parent is sticky.
    return credentials_of(caller_).owns(there->user) ? Errc::ok : Errc::not_permitted;
}

/// Errc::invalid if `directory` is `source` or is below it.
Errc TreeCloner::check_not_below(Handle source, Handle directory) {
    const u64 steps_max = api_.statistics().blocks * format::inodes_per_block;
    u64 steps = 0;
    for (Handle at = directory; at != source;) {
        if (at == api_.root()) return Errc::ok;
        if (++steps > steps_max) return Errc::corrupt;
        WARREN_LET(here, api_.attributes(at));
        const Result<Handle> above = api_.handle_of(here->parent);
        if (above.code() == Errc::stale) return Errc::no_entry;  // in a tree that was removed
        if (!above) return above.code();
        at = *above;
    }
    return Errc::invalid;
}

/// Creates the directory in which the clone grows.
Errc TreeCloner::make_staging() {
    ops::Command command = command_on(api_.root());
    command.mode = format::type_directory | 0700;
    command.now = now_;
    const Result<Attributes> made = volume_.ask<Verb::create_unnamed>(command);
    if (made) staging_ = made->handle;
    return made.code();
}

/// Clones the source and everything below it into the staging directory.
Errc TreeCloner::grow(const Attributes& source) {
    const ClonedDirectory staging{{}, staging_, nullptr, {}, 0, 0};
    if (const Errc code = clone_entry(source, staging, young_name); code != Errc::ok) {
        fail(code, nullptr, {});
        return code;
    }
    if (!format::is_directory(source.mode)) return Errc::ok;
    keeps_times_ = volume_.engine().batches() != nullptr;
    const Errc cloned =
        keeps_times_ ? clone_by_batches(source.handle) : clone_by_operations(source.handle);
    if (has_failed()) return error_;
    WARREN_TRY(cloned);
    set_directory_times();
    return error_;
}

/// Clones what is below the source while it is scanned.
Errc TreeCloner::clone_by_operations(Handle source) {
    const std::function<bool(const Scanned&)> visitor = [&](const Scanned& entry) {
        return visit(entry);
    };
    const std::function<bool()> is_over = [&] { return has_failed(); };
    const ScanCall call{bulk::plan_scan(bulk::ScanPurpose::visit, credentials_of(caller_)), source,
                        &visitor};
    std::vector<ScanPosition> left{{source}};
    Errc scanned = Errc::ok;
    u64 listed = 0;
    while (scanned == Errc::ok && !has_failed() && !left.empty()) {
        scanned = scan_on_host(volume_, call, is_over, left, listed);
    }
    return scanned;
}

/// Gives the clone its name, unless the name is taken by now or the caller has lost the permission.
/// An empty directory that it replaces is removed first, as the caller: it may not be the one that
/// check_target() found.
Errc TreeCloner::attach(Handle directory, std::string_view name) {
    WARREN_TRY(api_.check_access(caller_, directory, core::may_write | core::may_execute));
    if (replaces_) {
        const Errc code = api_.remove_directory(caller_, directory, name);
        if (code != Errc::ok && code != Errc::no_entry) return code;
    }
    return api_.rename(unchecked, staging_, young_name, directory, name, Rename::no_replace);
}

/// Frees the staging directory, with a clone that was not attached. If an error occurs, the next
/// opening frees the rest.
void TreeCloner::remove_staging(bool is_empty) {
    Removal removal;
    if (volume_.ask<Verb::start_dying>(command_on(staging_)) != Errc::ok) return;
    // The first call needs no memory.
    static_cast<void>(is_empty ? volume_.reclaim_by_steps(staging_)
                               : volume_.remove_detached(staging_, removal));
}

/// Whether the entry still leads to the inode that the scan has found. The scan reads an inode some
/// time after the name, and by its number, which another file may have by then: one that the caller
/// might not reach by its own name. An inode older than the staging directory is the right one.
bool TreeCloner::is_there(const Scanned& entry) {
    const Handle found = entry.attributes.handle;
    if (static_cast<i32>(found.generation - staging_.generation) < 0) return true;
    const Result<Attributes> now = api_.lookup(unchecked, entry.directory, entry.name);
    return now && now->handle == found;
}

/// Clones an entry of the source. Returns whether the scan should descend into it.
bool TreeCloner::visit(const Scanned& entry) {
    if (has_failed() || !is_there(entry)) return false;
    const ClonedDirectory* into = directories_.find(entry.directory);
    WARREN_CHECK(into != nullptr);  // the scan visits a directory before its entries
    // The scan can find a directory twice if the directory is moved meanwhile.
    const bool is_known = format::is_directory(entry.attributes.mode) &&
                          directories_.find(entry.attributes.handle) != nullptr;
    if (is_known) return false;
    const Errc code = clone_entry(entry.attributes, *into, entry.name);
    if (code == Errc::ok) return true;
    // The entry was removed meanwhile, or its name was given to another file after the scan had
    // found it.
    if (code != Errc::stale && code != Errc::exists) fail(code, into, entry.name);
    return false;
}

Errc TreeCloner::clone_entry(const Attributes& source, const ClonedDirectory& into,
                             std::string_view name) {
    if (!format::is_directory(source.mode)) {
        WARREN_TRY(source.links > 1 ? clone_linked(source, into.target, name)
                                    : clone_inode(source, into.target, name).code());
        files_.fetch_add(1, std::memory_order_relaxed);
        return Errc::ok;
    }
    WARREN_LET(made, clone_inode(source, into.target, name));
    const bool is_root = into.target == staging_;
    directories_.add({source.handle, *made, is_root ? nullptr : &into,
                      is_root ? std::string() : std::string(name), source.accessed,
                      source.modified});
    directory_count_.fetch_add(1, std::memory_order_relaxed);
    return Errc::ok;
}

/// Several names of one file in the source become names of one file in the clone.
Errc TreeCloner::clone_linked(const Attributes& source, Handle directory, std::string_view name) {
    const std::lock_guard lock(linked_mutex_);
    const auto known = linked_.find(source.handle);
    if (known != linked_.end()) {
        return api_.link(unchecked, known->second, directory, name).code();
    }
    const Result<Handle> made = clone_inode(source, directory, name);
    if (made) linked_.emplace(source.handle, *made);
    return made.code();
}

Result<Handle> TreeCloner::clone_inode(const Attributes& source, Handle directory,
                                       std::string_view name) {
    std::string target;
    if (format::is_symlink(source.mode) && source.size > format::area_bytes) {
        WARREN_LET(link, api_.read_link(source.handle));
        target = *link;
    }
    WARREN_LET(cloned, run_clone(source, directory, name, target));
    Errc code = Errc::ok;
    if (cloned->lacks_contents) code = share_contents(source.handle, cloned->handle);
    if (code == Errc::ok && cloned->lacks_attributes) {
        code = copy_attributes(source.handle, cloned->handle);
    }
    if (code == Errc::stale) {  // the source is gone, so remove its clone
        static_cast<void>(format::is_directory(source.mode)
                              ? api_.remove_directory(unchecked, directory, name)
                              : api_.unlink(unchecked, directory, name));
    }
    return code == Errc::ok ? Result<Handle>(cloned->handle) : code;
}

Result<ops::Cloned> TreeCloner::run_clone(const Attributes& source, Handle directory,
                                          std::string_view name, std::string_view link_target) {
    ops::Command command = command_on(source.handle, caller_);
    command.target = directory;
    set_name(command, name);
    command.text = link_target.data();
    command.text_bytes = link_target.size();
    command.now = now_;
    if (format::is_directory(source.mode)) return volume_.ask<Verb::clone>(command);
    const auto lock = [&] {
        std::unique_lock held(volume_.data_lock(source.handle.inode));
        volume_.note_shared_data();
        return held;
    };
    if (!volume_.works_on_host()) {
        const auto held = lock();
        return volume_.ask<Verb::clone>(command);
    }
    return volume_.run([&](CpuOperation& op) {
        // Not held while the driver waits for a commit: files of other workers have the same lock.
        const auto held = lock();
        return ops::answer<Verb::clone>(op, command);
    });
}

/// Shares the contents that one operation cannot share.
Errc TreeCloner::share_contents(Handle source, Handle target) {
    const OpenWhile from(api_, source);
    WARREN_TRY(from.code());
    const OpenWhile to(api_, target);
    WARREN_TRY(to.code());
    return api_.share_range(source, 0, target, 0, format::file_size_max, Stamp::no).code();
}

/// Copies extended attributes, including access control lists, as far as the caller may set them.
Errc TreeCloner::copy_attributes(Handle source, Handle target) {
    std::array<char, format::block_size> names;
    std::array<std::byte, format::block_size> value;
    WARREN_LET(bytes, api_.list_attributes(source, names));
    for (std::string_view rest(names.data(), *bytes); !rest.empty();) {
        const std::string_view name = rest.substr(0, rest.find('\0'));
        rest.remove_prefix(std::min(rest.size(), name.size() + 1));
        const Result<u64> size = api_.get_attribute(source, name, value);
        if (size.code() == Errc::no_data) continue;  // removed meanwhile
        if (!size) return size.code();
        // Attributes that need privileges are skipped for a caller without them.
        const bool is_reserved = name.starts_with("trusted.") || name.starts_with("security.");
        const Errc code = api_.set_attribute(is_reserved ? caller_ : unchecked, target, name,
                                             std::span(value).first(*size));
        const bool may_not = code == Errc::access || code == Errc::not_permitted;
        if (code != Errc::ok && !(is_reserved && may_not)) return code;
    }
    return Errc::ok;
}

/// Sets the times of directories to those of their sources, where adding names has changed them.
void TreeCloner::set_directory_times() {
    directories_.for_each(volume_.thread_pool(), [&](const ClonedDirectory& directory) {
        if (keeps_times_ && !touched_.contains(&directory)) return;
        AttributeChange times;
        times.which = AttributeChange::accessed | AttributeChange::modified;
        times.new_accessed = directory.accessed;
        times.new_modified = directory.modified;
        const Errc code = api_.set_attributes(unchecked, directory.target, times).code();
        if (code != Errc::ok) fail(code, &directory, {});
    });
}

/// Records the first error and the path where it occurred.
void TreeCloner::fail(Errc code, const ClonedDirectory* in, std::string_view name) {
    const std::lock_guard lock(failed_mutex_);
    if (has_failed()) return;
    error_.store(code, std::memory_order_relaxed);
    std::string path(name);
    for (; in != nullptr && in->above != nullptr; in = in->above)
        path = path.empty() ? in->name : in->name + "/" + path;
    failed_ = std::move(path);
}

}  // namespace warren
