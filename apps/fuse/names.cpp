// SPDX-License-Identifier: Apache-2.0
// Names: look up, create, remove and rename them, and forget inodes.
#include <sys/sysmacros.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "apps/fuse/guard.hpp"
#include "apps/fuse/operations.hpp"
#include "apps/fuse/request.hpp"

namespace warren::fuse {

namespace {

/// The inode with this number, whether or not the kernel holds it: the look-up of an NFS client's
/// file handle begins with a bare number.
Result<Attributes> by_number(const Request& request, fuse_ino_t node) {
    WARREN_LET(handle, request.volume->handle_of(request.mount.nodes.inode_of(node)));
    return request.volume->attributes(*handle, Hold::yes);
}

Result<Attributes> parent_of(const Request& request, fuse_ino_t node) {
    WARREN_LET(child, request.volume->handle_of(request.mount.nodes.inode_of(node)));
    WARREN_LET(attributes, request.volume->attributes(*child));
    WARREN_LET(parent, request.volume->handle_of(attributes->parent));
    return request.volume->attributes(*parent, Hold::yes);
}

void look_up(fuse_req_t raw, fuse_ino_t parent, const char* name) {
    const Request request(raw, parent, name);
    const std::string_view wanted(name);
    if (wanted == ".") return request.reply_entry(by_number(request, parent));
    if (wanted == "..") return request.reply_entry(parent_of(request, parent));
    Handle directory;
    if (!request.find(parent, directory)) return;
    const Result<Attributes> found =
        about_name(request.volume->lookup(request.caller(), directory, wanted, Hold::yes));
    if (found.code() == Errc::no_entry) return request.reply_absent();
    request.reply_entry(found);
}

/// Creates what `options` specify and replies with its entry.
void make(fuse_req_t raw, fuse_ino_t parent, const char* name, CreateOptions options) {
    const Request request(raw, parent, name);
    Handle directory;
    if (!request.find(parent, directory)) return;
    options.hold = Hold::yes;
    request.reply_entry(
        about_name(request.volume->create(request.caller(), directory, name, options)));
}

void make_node(fuse_req_t raw, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
    CreateOptions options;
    options.mode = mode;
    options.device = static_cast<u32>(major(device) << 20 | (minor(device) & 0xfffff));
    make(raw, parent, name, options);
}

void make_directory(fuse_req_t raw, fuse_ino_t parent, const char* name, mode_t mode) {
    CreateOptions options;
    options.mode = S_IFDIR | (mode & 07777);
    make(raw, parent, name, options);
}

void make_symbolic_link(fuse_req_t raw, const char* target, fuse_ino_t parent, const char* name) {
    CreateOptions options;
    options.mode = S_IFLNK | 0777;
    options.target = target;
    make(raw, parent, name, options);
}

void read_link(fuse_req_t raw, fuse_ino_t node) {
    const Request request(raw, node);
    Handle link;
    if (!request.find(node, link)) return;
    const Result<std::string> target = request.volume->read_link(link);
    if (!target) return request.reply(target.code());
    request.note_access(link, node, false);
    fuse_reply_readlink(raw, target->c_str());
}

void link(fuse_req_t raw, fuse_ino_t node, fuse_ino_t new_parent, const char* new_name) {
    const Request request(raw, node);
    Handle file, directory;
    if (!request.find(node, file) || !request.find(new_parent, directory)) return;
    request.reply_entry(
        about_name(request.volume->link(request.caller(), file, directory, new_name, Hold::yes)));
}

void unlink(fuse_req_t raw, fuse_ino_t parent, const char* name) {
    const Request request(raw, parent, name);
    Handle directory;
    if (!request.find(parent, directory)) return;
    request.reply(about_name(request.volume->unlink(request.caller(), directory, name)));
}

void remove_directory(fuse_req_t raw, fuse_ino_t parent, const char* name) {
    const Request request(raw, parent, name);
    Handle directory;
    if (!request.find(parent, directory)) return;
    request.reply(about_name(request.volume->remove_directory(request.caller(), directory, name)));
}

void rename(fuse_req_t raw, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
            const char* new_name, unsigned flags) {
    const Request request(raw, parent, name);
    Rename how = Rename::replace;
    if (flags == RENAME_NOREPLACE) {
        how = Rename::no_replace;
    } else if (flags == RENAME_EXCHANGE) {
        how = Rename::exchange;
    } else if (flags == RENAME_WHITEOUT) {
        how = Rename::whiteout;
    } else if (flags == (RENAME_WHITEOUT | RENAME_NOREPLACE)) {
        how = Rename::whiteout_no_replace;
    } else if (flags != 0) {
        return request.reply(Errc::invalid);
    }
    Handle from, to;
    if (!request.find(parent, from) || !request.find(new_parent, to)) return;
    request.reply(
        about_name(request.volume->rename(request.caller(), from, name, to, new_name, how)));
}

/// The kernel never repeats a forget, so this must not fail.
void forget_many(fuse_req_t raw, size_t count, fuse_forget_data* items) {
    MountState& mount = MountState::of(raw);
    const LiveVolume::Access volume = mount.volume.access();
    for (size_t i = 0; i < count; ++i)
        mount.give_back(*volume, items[i].ino, items[i].nlookup);
    fuse_reply_none(raw);
}

void forget(fuse_req_t raw, fuse_ino_t node, u64 count) {
    fuse_forget_data item{node, count};
    forget_many(raw, 1, &item);
}

}  // namespace

void add_name_operations(fuse_lowlevel_ops& operations) {
    operations.lookup = guarded<look_up>;
    operations.mknod = guarded<make_node>;
    operations.mkdir = guarded<make_directory>;
    operations.symlink = guarded<make_symbolic_link>;
    operations.readlink = guarded<read_link>;
    operations.link = guarded<link>;
    operations.unlink = guarded<unlink>;
    operations.rmdir = guarded<remove_directory>;
    operations.rename = guarded<rename>;
    operations.forget = forget;
    operations.forget_multi = forget_many;
}

}  // namespace warren::fuse
