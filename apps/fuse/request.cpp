// SPDX-License-Identifier: Apache-2.0
// Replies and access times. The kernel leaves access times to the file system (a FUSE inode is
// S_NOATIME), and reads from its page cache send no request. The access time is therefore also set
// when a file is opened for reading; under relatime that is at most once after each change or once
// a day.
#include "apps/fuse/request.hpp"

#include <sys/sysmacros.h>

#include <cerrno>

#include "apps/fuse/device.hpp"
#include "apps/fuse/statx_reply.hpp"
#include "base/file_clock.hpp"
#include "base/file_time.hpp"

namespace warren::fuse {

namespace {

constexpr i64 day_ns = 24 * 3600 * second_ns;

/// Whether an access now must update the access time.
bool is_stale(const Attributes& attributes, AccessTimes rule, i64 now) {
    if (rule == AccessTimes::always) return true;
    return attributes.accessed <= attributes.modified ||
           attributes.accessed <= attributes.changed || now - attributes.accessed >= day_ns;
}

}  // namespace

struct stat to_stat(const Attributes& attributes) {
    struct stat facts {};
    facts.st_ino = attributes.handle.inode;
    facts.st_mode = attributes.mode;
    facts.st_nlink = attributes.links;
    facts.st_uid = attributes.user;
    facts.st_gid = attributes.group;
    facts.st_rdev = makedev(attributes.device >> 20, attributes.device & 0xfffff);
    facts.st_size = static_cast<off_t>(attributes.size);
    facts.st_blksize = 4096;
    facts.st_blocks = static_cast<blkcnt_t>(attributes.blocks * 8);
    facts.st_atim = to_timespec(attributes.accessed);
    facts.st_mtim = to_timespec(attributes.modified);
    facts.st_ctim = to_timespec(attributes.changed);
    return facts;
}

Caller Request::caller() const {
    const fuse_ctx* context = fuse_req_ctx(raw_);
    Caller who;
    who.user = context->uid;
    who.group = context->gid;
    who.umask = context->umask;
    who.check = false;
    return who;
}

bool Request::find(fuse_ino_t node, Handle& handle) const {
    if (const auto found = mount.nodes.find(node)) {
        handle = *found;
        return true;
    }
    reply(Errc::stale);
    return false;
}

void Request::reply(Errc code) const {
    if (code == Errc::corrupt) mount.damage.note(mount.nodes.inode_of(node_), name_);
    const bool is_known = is_final(code) && code != Errc::corrupt;
    fuse_reply_err(raw_, is_known ? static_cast<int>(code) : EIO);
}

void Request::reply_entry(const Result<Attributes>& result) const {
    if (!result) return reply(result.code());
    const fuse_entry_param entry = take_entry(*result);
    if (fuse_reply_entry(raw_, &entry) != 0) give_back(entry.ino, 1);
}

void Request::reply_attributes(const Result<Attributes>& result) const {
    if (!result) return reply(result.code());
    if (is_statx()) return reply_statx(raw_, *result, attribute_seconds(node_));
    const struct stat facts = to_stat(*result);
    fuse_reply_attr(raw_, &facts, attribute_seconds(node_));
}

void Request::reply_absent() const {
    fuse_entry_param entry{};
    entry.entry_timeout = cache_seconds;
    fuse_reply_entry(raw_, &entry);
}

fuse_entry_param Request::take_entry(const Attributes& attributes) const {
    fuse_entry_param entry{};
    entry.ino = mount.nodes.node_of(attributes.handle.inode);
    const NodeTable::Remembered remembered = mount.nodes.remember(attributes);
    if (remembered.surplus != 0) volume->forget(attributes.handle, remembered.surplus);
    entry.generation = remembered.generation;
    entry.attr = to_stat(attributes);
    entry.attr_timeout = attribute_seconds(entry.ino);
    entry.entry_timeout = cache_seconds;
    return entry;
}

bool Request::tells_refusals() const {
    if (mount.refused.is_empty()) return false;
    if (mount.full_watch.is_nearly_full(*volume)) return true;
    mount.refused.forget_all();
    return false;
}

double Request::attribute_seconds(fuse_ino_t node) const {
    const bool has_untold =
        tells_refusals() && mount.refused.has_untold(node, mount.nodes.writers(node));
    return has_untold ? 0 : cache_seconds;
}

void Request::give_back(fuse_ino_t node, u64 count) const {
    mount.give_back(*volume, node, count);
}

void Request::drop_privileges(Handle handle, AttributeChange& change) const {
    const Result<Attributes> attributes = volume->attributes(handle);
    if (!attributes || S_ISDIR(attributes->mode)) return;
    const bool has_mode = (change.which & AttributeChange::mode) != 0;
    const u32 mode = has_mode ? change.new_mode : attributes->mode & 07777;
    u32 dropped = S_ISUID;
    if ((mode & S_IXGRP) != 0) dropped |= S_ISGID;
    if ((mode & dropped) == 0) return;
    change.which |= AttributeChange::mode;
    change.new_mode = mode & ~dropped;
    // The change that clears them has a time of its own, which the kernel maintains for a file.
    if (S_ISREG(attributes->mode) && (change.which & AttributeChange::changed) == 0) {
        change.which |= AttributeChange::changed;
        change.new_changed = time_kept;
    }
}

Errc Request::sync(Handle handle) const {
    return mount.make_durable([&] { return volume->sync_file(handle); });
}

void Request::note_access(Handle handle, fuse_ino_t node, bool in_cache) const {
    const AccessTimes rule = mount.access_times.load(std::memory_order_relaxed);
    if (rule == AccessTimes::never || mount.read_only.load(std::memory_order_relaxed)) return;
    const Result<Attributes> attributes = volume->attributes(handle);
    const i64 now = now_nanoseconds();
    if (!attributes || !is_stale(*attributes, rule, now)) return;
    AttributeChange change;
    change.which = AttributeChange::accessed | AttributeChange::changed;
    change.new_accessed = now;
    change.new_changed = time_kept;  // reading is not a change
    if (!volume->set_attributes(caller(), handle, change)) return;
    // Only attributes: for these the kernel takes no lock that a request may hold.
    if (in_cache) fuse_lowlevel_notify_inval_inode(mount.session, node, -1, 0);
}

}  // namespace warren::fuse
