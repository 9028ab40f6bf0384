// SPDX-License-Identifier: Apache-2.0
// Attributes, extended attributes, and the state of the volume.
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "apps/fuse/guard.hpp"
#include "apps/fuse/operations.hpp"
#include "apps/fuse/request.hpp"
#include "base/file_clock.hpp"
#include "base/file_time.hpp"

namespace warren::fuse {

namespace {

constexpr std::string_view access_list_name = "system.posix_acl_access";

i64 to_ns(const timespec& time) {
    return file_time(time.tv_sec, time.tv_nsec);
}

/// The attributes of an inode that was removed but that the kernel still holds, such as a process's
/// working directory: empty, no links, nothing to protect.
Attributes removed_inode(const Request& request, fuse_ino_t node, Handle handle) {
    Attributes attributes;
    attributes.handle = handle;
    attributes.mode = request.mount.nodes.is_directory(node) ? S_IFDIR | 0777 : S_IFREG | 0666;
    return attributes;
}

/// For an open file this request comes from write(2) after the kernel was told to forget the
/// inode's attributes: it is where the writer gets the error of an earlier refused write.
void get_attributes(fuse_req_t raw, fuse_ino_t node, fuse_file_info* info) {
    const Request request(raw, node);
    Handle handle;
    if (!request.find(node, handle)) return;
    if (info != nullptr && request.tells_refusals() &&
        request.mount.refused.must_tell(node, info->fh)) {
        request.mount.refused.note_told(node, info->fh);
        return request.reply(Errc::no_space);
    }
    const Result<Attributes> attributes = request.volume->attributes(handle);
    if (attributes.code() == Errc::stale && request.mount.nodes.is_directory(node)) {
        return request.reply_attributes(removed_inode(request, node, handle));
    }
    request.reply_attributes(attributes);
}

AttributeChange to_change(const struct stat& facts, int which) {
    AttributeChange change;
    auto take = [&](int asked, u32 bit) {
        if ((which & asked) == 0) return false;
        change.which |= bit;
        return true;
    };
    if (take(FUSE_SET_ATTR_MODE, AttributeChange::mode)) change.new_mode = facts.st_mode & 07777;
    if (take(FUSE_SET_ATTR_UID, AttributeChange::user)) change.new_user = facts.st_uid;
    if (take(FUSE_SET_ATTR_GID, AttributeChange::group)) change.new_group = facts.st_gid;
    if (take(FUSE_SET_ATTR_SIZE, AttributeChange::size)) {
        change.new_size = static_cast<u64>(facts.st_size);
    }
    if (take(FUSE_SET_ATTR_ATIME, AttributeChange::accessed)) {
        change.new_accessed = to_ns(facts.st_atim);
    }
    if (take(FUSE_SET_ATTR_MTIME, AttributeChange::modified)) {
        change.new_modified = to_ns(facts.st_mtim);
    }
    if (take(FUSE_SET_ATTR_CTIME, AttributeChange::changed)) {
        change.new_changed = to_ns(facts.st_ctim);
    }
    if (take(FUSE_SET_ATTR_ATIME_NOW, AttributeChange::accessed))
        change.new_accessed = now_nanoseconds();
    if (take(FUSE_SET_ATTR_MTIME_NOW, AttributeChange::modified))
        change.new_modified = now_nanoseconds();
    return change;
}

void set_attributes(fuse_req_t raw, fuse_ino_t node, struct stat* facts, int which,
                    fuse_file_info*) {
    const Request request(raw, node);
    Handle handle;
    if (!request.find(node, handle)) return;
    AttributeChange change = to_change(*facts, which);
    // A change of nothing but the change time comes from a chown to the same ids, or precedes
    // fallocate(2): both clear the bits too.
    const bool is_empty = (which & ~FUSE_SET_ATTR_CTIME) == 0;
    if (is_empty || (which & FUSE_SET_ATTR_KILL_SUID) != 0) {
        request.drop_privileges(handle, change);
    }
    const bool resizes_alone = (which & FUSE_SET_ATTR_SIZE) != 0 &&
                               (which & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW)) == 0;
    if (resizes_alone) keep_times(change);
    const Result<Attributes> changed =
        request.volume->set_attributes(request.caller(), handle, change);
    if (changed && (which & FUSE_SET_ATTR_SIZE) != 0) request.mount.unsaved.note(node);
    // The kernel also sends the final times of a file that has neither a name nor a descriptor. An
    // error would be kept for the next caller of syncfs(2).
    const bool sets_times_alone = (which & ~(FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_CTIME)) == 0;
    if (changed.code() == Errc::stale && sets_times_alone) {
        return request.reply_attributes(removed_inode(request, node, handle));
    }
    request.reply_attributes(changed);
}

void get_statistics(fuse_req_t raw, fuse_ino_t node) {
    const Request request(raw, node);
    const Statistics statistics = request.volume->statistics();
    struct statvfs answer {};
    answer.f_bsize = 4096;
    answer.f_frsize = 4096;
    answer.f_blocks = statistics.blocks;
    answer.f_bfree = statistics.blocks_free;
    answer.f_bavail = statistics.blocks_available;
    answer.f_files = statistics.inodes_used + statistics.inodes_free;
    answer.f_ffree = statistics.inodes_free;
    answer.f_favail = statistics.inodes_free;
    answer.f_namemax = 255;
    fuse_reply_statfs(raw, &answer);
}

/// Whether the caller is in the file's group, according to /proc.
bool is_member(const Request& request, u32 group) {
    if (request.caller().group == group) return true;
    std::vector<gid_t> groups(64);
    int count = fuse_req_getgroups(request.raw(), 64, groups.data());
    if (count > 64) {
        groups.resize(static_cast<size_t>(count));
        count = fuse_req_getgroups(request.raw(), count, groups.data());
    }
    for (size_t i = 0; i < groups.size() && static_cast<int>(i) < count; ++i) {
        if (groups[i] == group) return true;
    }
    return false;
}

/// A new access control list clears set-group-id if the caller is not in the file's group.
bool loses_group_bit(const Request& request, Handle handle) {
    if (request.user() == 0) return false;
    const Result<Attributes> attributes = request.volume->attributes(handle);
    return attributes && (attributes->mode & S_ISGID) != 0 &&
           !is_member(request, attributes->group);
}

void clear_group_bit(const Request& request, Handle handle) {
    const Result<Attributes> attributes = request.volume->attributes(handle);
    if (!attributes) return;
    AttributeChange change;
    change.which = AttributeChange::mode;
    change.new_mode = attributes->mode & 07777 & ~static_cast<u32>(S_ISGID);
    static_cast<void>(request.volume->set_attributes(request.caller(), handle, change));
}

void set_extended(fuse_req_t raw, fuse_ino_t node, const char* name, const char* value,
                  size_t size_bytes, int flags) {
    const Request request(raw, node);
    Handle handle;
    if (!request.find(node, handle)) return;
    const AttributeSet how = (flags & 1) != 0   ? AttributeSet::create  // XATTR_CREATE
                             : (flags & 2) != 0 ? AttributeSet::replace
                                                : AttributeSet::any;
    const auto bytes = std::as_bytes(std::span(value, size_bytes));
    const bool is_bit_lost = name == access_list_name && loses_group_bit(request, handle);
    const Errc code = request.volume->set_attribute(request.caller(), handle, name, bytes, how);
    if (code == Errc::ok && is_bit_lost) clear_group_bit(request, handle);
    request.reply(code);
}

/// Replies with the size, or with the bytes that `fill` writes into a buffer.
template <class Fill>
void reply_bytes(const Request& request, size_t size_bytes, Fill fill) {
    std::vector<char> bytes(size_bytes);
    const Result<u64> length = fill(std::span<char>(bytes));
    if (!length) return request.reply(length.code());
    if (size_bytes == 0) {
        fuse_reply_xattr(request.raw(), *length);
    } else if (*length > size_bytes) {
        request.reply(Errc::out_of_range);
    } else {
        fuse_reply_buf(request.raw(), bytes.data(), *length);
    }
}

void get_extended(fuse_req_t raw, fuse_ino_t node, const char* name, size_t size_bytes) {
    const Request request(raw, node);
    Handle handle;
    if (!request.find(node, handle)) return;
    reply_bytes(request, size_bytes, [&](std::span<char> target) {
        return request.volume->get_attribute(handle, name, std::as_writable_bytes(target));
    });
}

void list_extended(fuse_req_t raw, fuse_ino_t node, size_t size_bytes) {
    const Request request(raw, node);
    Handle handle;
    if (!request.find(node, handle)) return;
    reply_bytes(request, size_bytes, [&](std::span<char> target) {
        return request.volume->list_attributes(handle, target);
    });
}

void remove_extended(fuse_req_t raw, fuse_ino_t node, const char* name) {
    const Request request(raw, node);
    Handle handle;
    if (!request.find(node, handle)) return;
    request.reply(request.volume->remove_attribute(request.caller(), handle, name));
}

}  // namespace

void add_inode_operations(fuse_lowlevel_ops& operations) {
    operations.getattr = guarded<get_attributes>;
    operations.setattr = guarded<set_attributes>;
    operations.statfs = guarded<get_statistics>;
    operations.setxattr = guarded<set_extended>;
    operations.getxattr = guarded<get_extended>;
    operations.listxattr = guarded<list_extended>;
    operations.removexattr = guarded<remove_extended>;
}

}  // namespace warren::fuse
