// SPDX-License-Identifier: Apache-2.0
// Reading directories, with and without attributes. A position in a directory is the volume's
// cookie; 0, 1 and 2 mean before ".", before ".." and before the first entry.
//
// Invariant: each entry with attributes counts one reference, which the kernel will forget. Entries
// are looked up by name after the directory was read, so a name never gets the inode of another.
#include <fcntl.h>

#include <string>
#include <vector>

#include "apps/fuse/guard.hpp"
#include "apps/fuse/operations.hpp"
#include "apps/fuse/request.hpp"
#include "base/on_exit.hpp"

namespace warren::fuse {

namespace {

/// A reply under construction.
struct Listing {
    Listing(fuse_req_t raw, size_t size_bytes) : raw_request(raw), bytes(size_bytes) {}

    size_t room() const { return bytes.size() - used; }
    char* end() { return bytes.data() + used; }

    /// Adds a plain entry; false if it does not fit.
    bool add(const char* name, u64 inode, u32 mode, u64 next) {
        struct stat facts {};
        facts.st_ino = inode;
        facts.st_mode = mode;
        const size_t needed =
            fuse_add_direntry(raw_request, end(), room(), name, &facts, static_cast<off_t>(next));
        return take(needed);
    }
    /// Adds an entry with attributes; false if it does not fit.
    bool add(const char* name, const fuse_entry_param& entry, u64 next) {
        const size_t needed = fuse_add_direntry_plus(raw_request, end(), room(), name, &entry,
                                                     static_cast<off_t>(next));
        return take(needed);
    }
    bool take(size_t needed) {
        if (needed > room()) return false;
        used += needed;
        return true;
    }

    fuse_req_t raw_request;
    std::vector<char> bytes;
    size_t used = 0;
};

/// Entries that were read from a directory but not looked up yet.
struct Batch {
    struct Item {
        size_t name_start = 0;
        u64 inode = 0;
        u32 mode = 0;
        u64 next = 0;
    };
    std::string names;  // each ends with a zero byte
    std::vector<Item> items;
};

u32 type_bits(u8 type) {
    return u32{type} << 12;
}

/// A directory that was removed while a process still uses it has no entries.
Errc unless_removed(const Request& request, fuse_ino_t node, Errc code) {
    return code == Errc::stale && request.mount.nodes.is_directory(node) ? Errc::ok : code;
}

void open_directory(fuse_req_t raw, fuse_ino_t node, fuse_file_info* info) {
    const Request request(raw, node);
    Handle directory;
    if (!request.find(node, directory)) return;
    const Errc opened = unless_removed(request, node, request.volume->open_file(directory));
    if (opened != Errc::ok) return request.reply(about_name(opened));
    request.mount.nodes.count_open(node, false);
    if ((info->flags & O_NOATIME) == 0) request.note_access(directory, node, true);
    info->fh = directory.generation;
    info->cache_readdir = 1;
    info->keep_cache = 1;
    if (fuse_reply_open(raw, info) != 0) {
        request.mount.nodes.count_release(node, false);
        static_cast<void>(request.volume->release(directory));
    }
}

void release_directory(fuse_req_t raw, fuse_ino_t node, fuse_file_info* info) {
    const Request request(raw, node, "", Takes::nothing);
    request.mount.nodes.count_release(node, false);
    const Handle directory{request.mount.nodes.inode_of(node), static_cast<u32>(info->fh)};
    request.reply(request.volume->release(directory));
}

void sync_directory(fuse_req_t raw, fuse_ino_t node, int, fuse_file_info*) {
    const Request request(raw, node);
    Handle directory;
    if (request.find(node, directory)) request.reply(request.sync(directory));
}

/// The inode number of the parent; the directory's own for the root and if it is unknown.
u64 parent_inode(const Request& request, Handle directory) {
    const Result<Attributes> attributes = request.volume->attributes(directory);
    return attributes && attributes->parent != 0 ? attributes->parent : directory.inode;
}

fuse_entry_param bare_entry(u64 inode, u32 mode) {
    fuse_entry_param entry{};
    entry.attr.st_ino = inode;
    entry.attr.st_mode = mode;
    return entry;
}

/// Adds "." and ".." from `position` on; false if there is no room.
bool add_dots(const Request& request, Listing& listing, Handle directory, u64 position, bool plus) {
    if (position < 1) {
        const u64 own = directory.inode;
        if (!(plus ? listing.add(".", bare_entry(own, S_IFDIR), 1)
                   : listing.add(".", own, S_IFDIR, 1))) {
            return false;
        }
    }
    if (position < 2) {
        const u64 parent = parent_inode(request, directory);
        if (!(plus ? listing.add("..", bare_entry(parent, S_IFDIR), 2)
                   : listing.add("..", parent, S_IFDIR, 2))) {
            return false;
        }
    }
    return true;
}

void read_directory(fuse_req_t raw, fuse_ino_t node, size_t size_bytes, off_t offset,
                    fuse_file_info*) {
    const Request request(raw, node);
    Handle directory;
    if (!request.find(node, directory)) return;
    const auto position = static_cast<u64>(offset);
    Listing listing(raw, size_bytes);
    if (add_dots(request, listing, directory, position, false)) {
        std::string name;
        const Errc read = request.volume->read_directory(
            directory, position <= 2 ? 0 : position, [&](const DirectoryEntry& entry) {
                name = entry.name;
                return listing.add(name.c_str(), entry.inode, type_bits(entry.type), entry.cookie);
            });
        const Errc code = unless_removed(request, node, read);
        if (code != Errc::ok && listing.used == 0) return request.reply(about_name(code));
    }
    fuse_reply_buf(raw, listing.bytes.data(), listing.used);
}

/// Reads as many entries as fit into `room` bytes with their attributes.
Errc read_batch(const Request& request, Handle directory, u64 position, size_t room, Batch& batch) {
    size_t needed = 0;
    std::string name;
    return request.volume->read_directory(
        directory, position <= 2 ? 0 : position, [&](const DirectoryEntry& entry) {
            name = entry.name;
            needed += fuse_add_direntry_plus(request.raw(), nullptr, 0, name.c_str(), nullptr, 0);
            if (needed > room) return false;
            batch.items.push_back(
                {batch.names.size(), entry.inode, type_bits(entry.type), entry.cookie});
            batch.names += name;
            batch.names += '\0';
            return true;
        });
}

/// Looks up an entry and adds it. A name that was removed meanwhile is skipped; one that cannot be
/// looked up is listed without attributes, so that the error occurs when a program needs them.
/// Returns false if there is no room.
bool add_looked_up(const Request& request, Listing& listing, Handle directory, const char* name,
                   const Batch::Item& item, std::vector<fuse_ino_t>& taken) {
    NodeTable::prepare();
    const Result<Attributes> found =
        request.volume->lookup(request.caller(), directory, name, Hold::yes);
    if (found.code() == Errc::no_entry) return true;
    if (!found) return listing.add(name, bare_entry(item.inode, item.mode), item.next);
    const fuse_entry_param entry = request.take_entry(*found);
    if (listing.add(name, entry, item.next)) {
        taken.push_back(entry.ino);
        return true;
    }
    request.give_back(entry.ino, 1);
    return false;
}

void read_directory_plus(fuse_req_t raw, fuse_ino_t node, size_t size_bytes, off_t offset,
                         fuse_file_info*) {
    const Request request(raw, node);
    Handle directory;
    if (!request.find(node, directory)) return;
    const auto position = static_cast<u64>(offset);
    Listing listing(raw, size_bytes);
    std::vector<fuse_ino_t> taken;  // the references that the kernel gets with the reply
    taken.reserve(size_bytes / fuse_add_direntry_plus(raw, nullptr, 0, "", nullptr, 0));
    const OnExit give_back([&] {
        for (const fuse_ino_t one : taken)
            request.give_back(one, 1);
    });
    u64 from = position;
    // All entries of a batch may have been removed meanwhile: continue, since an empty reply ends
    // the listing.
    for (bool more = add_dots(request, listing, directory, position, true); more;) {
        Batch batch;
        const Errc read = read_batch(request, directory, from, listing.room(), batch);
        const Errc code = unless_removed(request, node, read);
        if (code != Errc::ok && listing.used == 0) return request.reply(about_name(code));
        for (const Batch::Item& item : batch.items) {
            const char* name = batch.names.c_str() + item.name_start;
            if (!add_looked_up(request, listing, directory, name, item, taken)) break;
            from = item.next;
        }
        more = code == Errc::ok && listing.used == 0 && !batch.items.empty();
    }
    if (fuse_reply_buf(raw, listing.bytes.data(), listing.used) == 0) taken.clear();
}

}  // namespace

void add_directory_operations(fuse_lowlevel_ops& operations) {
    operations.opendir = guarded<open_directory>;
    operations.releasedir = guarded<release_directory>;
    operations.fsyncdir = guarded<sync_directory>;
    operations.readdir = guarded<read_directory>;
    operations.readdirplus = guarded<read_directory_plus>;
}

}  // namespace warren::fuse
