// SPDX-License-Identifier: Apache-2.0
// Opening, reading, writing and allocating. The kernel caches what it reads and writes (and
// implements O_DIRECT itself), so the only state of an open file is its number. With the writeback
// cache the kernel also maintains the modification and change times of files, and sends them later:
// a change of contents must not set them here, or the times would jump slightly after the kernel
// drops its own.
//
// Invariant: each open that the kernel knows of is counted once in the volume.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <vector>

#include "apps/fuse/device.hpp"
#include "apps/fuse/guard.hpp"
#include "apps/fuse/invalidator.hpp"
#include "apps/fuse/late_seek.hpp"
#include "apps/fuse/mount.hpp"
#include "apps/fuse/operations.hpp"
#include "apps/fuse/request.hpp"

namespace warren::fuse {

namespace {

/// A buffer of this thread, reused for the data of each request.
std::span<std::byte> thread_buffer(size_t size_bytes) {
    thread_local std::vector<std::byte> buffer;
    if (buffer.size() < size_bytes) buffer.resize(size_bytes);
    return std::span(buffer).first(size_bytes);
}

Handle handle_of(const Request& request, fuse_ino_t node, const fuse_file_info* info) {
    return {request.mount.nodes.inode_of(node), OpenNumber(info->fh).generation()};
}

bool writes(const fuse_file_info* info) {
    return (info->flags & O_ACCMODE) != O_RDONLY;
}

/// Chooses whether the kernel uses its page cache for this open, and sets the open's number.
void set_way(const Request& request, Handle file, fuse_file_info* info) {
    MountState& mount = request.mount;
    const bool is_direct =
        writes(info) && takes_direct_opens() && mount.full_watch.is_nearly_full(*request.volume);
    info->direct_io = is_direct;
    info->keep_cache = 1;
    const OpenWay way{writes(info), is_direct, (info->flags & O_DSYNC) != 0};
    info->fh = mount.opens.next(file.generation, way).number();
}

void close_again(const Request& request, fuse_ino_t node, Handle file, const fuse_file_info* info) {
    request.mount.nodes.count_release(node, writes(info));
    static_cast<void>(request.volume->release(file));
}

/// Truncation by O_TRUNC.
Errc empty_file(const Request& request, Handle file) {
    AttributeChange change;
    change.which = AttributeChange::size;
    if (clears_privileges()) request.drop_privileges(file, change);
    keep_times(change);
    WARREN_TRY(request.volume->set_attributes(request.caller(), file, change).code());
    request.mount.unsaved.note(request.mount.nodes.node_of(file.inode));
    return Errc::ok;
}

/// Opens an existing file and fills in the reply.
Errc open_file(const Request& request, fuse_ino_t node, Handle file, fuse_file_info* info) {
    WARREN_TRY(request.volume->open_file(file));
    request.mount.nodes.count_open(node, writes(info));
    if ((info->flags & O_TRUNC) != 0) {
        if (const Errc code = empty_file(request, file); code != Errc::ok) {
            close_again(request, node, file, info);
            return code;
        }
    } else if ((info->flags & O_ACCMODE) != O_WRONLY && (info->flags & O_NOATIME) == 0) {
        request.note_access(file, node, true);
    }
    set_way(request, file, info);
    return Errc::ok;
}

void open(fuse_req_t raw, fuse_ino_t node, fuse_file_info* info) {
    const Request request(raw, node);
    Handle file;
    if (!request.find(node, file)) return;
    if (const Errc code = open_file(request, node, file, info); code != Errc::ok) {
        return request.reply(code);
    }
    if (fuse_reply_open(raw, info) != 0) close_again(request, node, file, info);
}

/// Answers create() if another request has created the file in the meantime.
void open_existing(const Request& request, Handle directory, const char* name,
                   fuse_file_info* info) {
    const Result<Attributes> found =
        request.volume->lookup(request.caller(), directory, name, Hold::yes);
    if (!found) return request.reply(found.code());
    const fuse_entry_param entry = request.take_entry(*found);
    // Errc::stale makes the kernel look up the name again and see its type.
    const Errc code =
        S_ISREG(found->mode) ? open_file(request, entry.ino, found->handle, info) : Errc::stale;
    if (code != Errc::ok) {
        request.give_back(entry.ino, 1);
        return request.reply(code);
    }
    if (fuse_reply_create(request.raw(), &entry, info) != 0) {
        close_again(request, entry.ino, found->handle, info);
        request.give_back(entry.ino, 1);
    }
}

void create(fuse_req_t raw, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* info) {
    const Request request(raw, parent, name);
    Handle directory;
    if (!request.find(parent, directory)) return;
    CreateOptions options;
    options.mode = S_IFREG | (mode & 07777);
    options.hold = Hold::yes;
    options.open = true;
    const Result<Attributes> made =
        std::string_view(name) == unnamed_file
            ? request.volume->create_unnamed(request.caller(), directory, options)
            : request.volume->create(request.caller(), directory, name, options);
    if (made.code() == Errc::exists && (info->flags & O_EXCL) == 0) {
        return open_existing(request, directory, name, info);
    }
    if (!made) return request.reply(about_name(made.code()));
    const fuse_entry_param entry = request.take_entry(*made);
    request.mount.nodes.count_open(entry.ino, writes(info));
    request.mount.unsaved.note(entry.ino);
    set_way(request, made->handle, info);
    if (fuse_reply_create(raw, &entry, info) != 0) {
        close_again(request, entry.ino, made->handle, info);
        request.give_back(entry.ino, 1);
    }
}

void release(fuse_req_t raw, fuse_ino_t node, fuse_file_info* info) {
    const Request request(raw, node, "", Takes::nothing);
    MountState& mount = request.mount;
    const bool has_new_times = mount.nodes.count_release(node, writes(info));
    mount.unsaved.losses().close(node, info->fh);
    mount.refused.close(node, info->fh);
    if (!mount.refused.is_empty() && !mount.nodes.is_written(node)) mount.refused.forget(node);
    request.reply(request.volume->release(handle_of(request, node, info)));
    if (has_new_times) mount.invalidator->forget(node);
}

void read(fuse_req_t raw, fuse_ino_t node, size_t size_bytes, off_t offset, fuse_file_info* info) {
    const Request request(raw, node);
    const Handle file = handle_of(request, node, info);
    const std::span<std::byte> buffer = thread_buffer(size_bytes);
    const Result<u64> got = request.volume->read(file, static_cast<u64>(offset), buffer);
    if (!got) return request.reply(got.code());
    request.note_access(file, node, false);
    fuse_reply_buf(raw, reinterpret_cast<const char*>(buffer.data()), *got);
}

/// A write by an unprivileged process clears set-user-id and set-group-id.
void clear_privileges(const Request& request, fuse_ino_t node, Handle file) {
    AttributeChange change;
    request.drop_privileges(file, change);
    if (change.which == 0 || !request.volume->set_attributes(request.caller(), file, change))
        return;
    fuse_lowlevel_notify_inval_inode(request.mount.session, node, -1, 0);
}

/// A write also ends the file's capabilities. The kernel removes them itself, except where it hands
/// writes on without its page cache. After an error nothing may be written.
Errc clear_capabilities(const Request& request, Handle file) {
    const Errc code =
        request.volume->remove_attribute({.check = false}, file, "security.capability");
    return code == Errc::no_data ? Errc::ok : code;
}

/// Like Volume::write(), but writes all of the bytes or fails. The kernel treats pages that it
/// writes back as stored whatever count it is told, so a partial write must be an error.
Result<u64> write_back(Volume& volume, Handle file, u64 offset, std::span<const std::byte> bytes,
                       Awaited awaited) {
    u64 done = 0;
    while (done < bytes.size()) {
        const Result<u64> put =
            volume.write(file, offset + done, bytes.subspan(done), Stamp::no, awaited);
        if (!put) return put;
        if (*put == 0) return Errc::no_space;
        done += *put;
    }
    return done;
}

/// Dirty pages found no room. The kernel reports that to fsync(2) and close(2); this also makes the
/// next write(2) of each descriptor request attributes, where it gets the error.
void tell_writers(const Request& request, fuse_ino_t node) {
    MountState& mount = request.mount;
    mount.full_watch.note_refusal();
    // Without memory for the notice, fsync(2) and close(2) still report the loss.
    static_cast<void>(or_no_memory([&] { mount.refused.add(node, mount.opens.last()); }));
    request.reply(Errc::no_space);
    fuse_lowlevel_notify_inval_inode(mount.session, node, -1, 0);
}

void write(fuse_req_t raw, fuse_ino_t node, const char* bytes, size_t size_bytes, off_t offset,
           fuse_file_info* info) {
    const Request request(raw, node);
    const Handle file = handle_of(request, node, info);
    if (clears_privileges()) clear_privileges(request, node, file);
    const std::span<const std::byte> source = std::as_bytes(std::span(bytes, size_bytes));
    const u64 at = static_cast<u64>(offset);
    const OpenNumber number(info->fh);
    std::optional<CachedWrites::Running> running;
    if (info->writepage != 0) running.emplace(request.mount.cached_writes);
    const bool stamps = info->writepage == 0 && number.is_direct();
    if (stamps) {
        const Errc code = clear_capabilities(request, file);
        if (code != Errc::ok) return request.reply(code);
    }
    // For pages that are written back, the kernel names only the open file.
    const Awaited awaited = number.is_awaited() ? Awaited::yes : Awaited::no;
    const Result<u64> put =
        info->writepage != 0
            ? write_back(*request.volume, file, at, source, awaited)
            : request.volume->write(file, at, source, stamps ? Stamp::yes : Stamp::no, awaited);
    if (put) {
        if (stamps) request.mount.nodes.note_new_times(node);
        request.mount.unsaved.note(node);
        fuse_reply_write(raw, *put);
        return;
    }
    // If a write-back fails, the kernel reports it to all descriptors of the file.
    if (info->writepage != 0) request.mount.unsaved.forget(node);
    if (info->writepage != 0 && put.code() == Errc::no_space) return tell_writers(request, node);
    request.reply(put.code());
}

void sync(fuse_req_t raw, fuse_ino_t node, int, fuse_file_info* info) {
    const Request request(raw, node);
    LossNotices& losses = request.mount.unsaved.losses();
    const Errc code =
        losses.must_tell(node, info->fh) ? Errc::io : request.sync(handle_of(request, node, info));
    if (code == Errc::io) losses.note_told(node, info->fh);
    request.reply(code);
}

/// Called for each close(2), also of a duplicated descriptor; so it reports a loss without marking
/// it as reported by fsync(2). Once the kernel has heard ENOSYS it does not call again.
void flush(fuse_req_t raw, fuse_ino_t node, fuse_file_info* info) {
    const Request request(raw, node);
    UnsavedWrites& unsaved = request.mount.unsaved;
    if (!unsaved.may_have_losses()) {
        fuse_reply_err(raw, ENOSYS);
        return;
    }
    Errc code = unsaved.losses().must_tell(node, info->fh) ? Errc::io : Errc::ok;
    // The engine may have been lost just now, before any thread noticed.
    if (code == Errc::ok && unsaved.is_unsaved(node) &&
        request.volume->attributes(handle_of(request, node, info)).code() == Errc::io) {
        code = Errc::io;
    }
    request.reply(code);
}

void allocate(fuse_req_t raw, fuse_ino_t node, int mode, off_t offset, off_t length,
              fuse_file_info* info) {
    const Request request(raw, node);
    Allocate how = Allocate::reserve;
    switch (mode) {
        case 0:
            break;
        case FALLOC_FL_KEEP_SIZE:
            how = Allocate::reserve_keep_size;
            break;
        case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
            how = Allocate::punch_hole;
            break;
        case FALLOC_FL_ZERO_RANGE:
            how = Allocate::zero_range;
            break;
        case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
            how = Allocate::zero_range_keep_size;
            break;
        default:
            return request.reply(Errc::not_supported);
    }
    const Errc code =
        request.volume->allocate(handle_of(request, node, info), how, static_cast<u64>(offset),
                                 static_cast<u64>(length), Stamp::no);
    if (code == Errc::ok) request.mount.unsaved.note(node);
    request.reply(code);
}

void seek(fuse_req_t raw, fuse_ino_t node, off_t offset, int whence, fuse_file_info* info) {
    if (whence != SEEK_DATA && whence != SEEK_HOLE) {
        fuse_reply_err(raw, EINVAL);
        return;
    }
    MountState& mount = MountState::of(raw);
    const Handle file{mount.nodes.inode_of(node), OpenNumber(info->fh).generation()};
    const SeekRequest seek{raw, node, file, static_cast<u64>(offset),
                           whence == SEEK_DATA ? Seek::data : Seek::hole};
    if (mount.nodes.is_written(node)) {
        mount.late_seeker->take(seek);
    } else {
        answer_seek(seek);
    }
}

/// The range of a copy, and its progress.
struct CopyJob {
    Handle source;
    Handle target;
    u64 source_offset = 0;
    u64 target_offset = 0;
    u64 left = 0;
    u64 done = 0;
    std::span<std::byte> buffer = {};  // for a segment of data

    void advance(u64 bytes) {
        source_offset += bytes;
        target_offset += bytes;
        left -= bytes;
        done += bytes;
    }
};

/// Makes a hole of `bytes` in the target, which may extend the file.
Errc copy_hole(const Request& request, CopyJob& job, u64 bytes) {
    WARREN_TRY(request.volume->allocate(job.target, Allocate::punch_hole, job.target_offset, bytes,
                                        Stamp::no));
    WARREN_LET(target, request.volume->attributes(job.target));
    if (target->size < job.target_offset + bytes) {
        AttributeChange change;
        change.which = AttributeChange::size;
        change.new_size = job.target_offset + bytes;
        keep_times(change);
        WARREN_TRY(request.volume->set_attributes(request.caller(), job.target, change).code());
    }
    job.advance(bytes);
    return Errc::ok;
}

Errc copy_data(const Request& request, CopyJob& job) {
    const std::span<std::byte> piece = job.buffer.first(std::min<u64>(job.left, job.buffer.size()));
    WARREN_LET(got, request.volume->read(job.source, job.source_offset, piece));
    if (*got == 0) {
        job.left = 0;
        return Errc::ok;
    }
    WARREN_LET(put,
               request.volume->write(job.target, job.target_offset, piece.first(*got), Stamp::no));
    if (*put == 0) return Errc::no_space;
    job.advance(*put);
    return Errc::ok;
}

/// One step of a copy: a hole or a segment of data. The copy ends where the source ends meanwhile.
Errc copy_step(const Request& request, CopyJob& job) {
    WARREN_LET(source, request.volume->attributes(job.source));
    job.left = std::min(job.left, source->size - std::min(source->size, job.source_offset));
    if (job.left == 0) return Errc::ok;
    const Result<u64> data = request.volume->seek(job.source, job.source_offset, Seek::data);
    if (!data && data.code() != Errc::no_such_address) return data.code();
    const u64 hole = data ? *data - job.source_offset : job.left;
    return hole > 0 ? copy_hole(request, job, std::min(hole, job.left)) : copy_data(request, job);
}

/// Shares whole blocks instead of copying them, as far as possible. The copy handles the rest, and
/// reports errors.
void share_blocks(const Request& request, CopyJob& job) {
    constexpr u64 block = 4 * kib;
    if ((job.source_offset | job.target_offset) % block != 0) return;
    const u64 whole = job.left / block * block;
    for (const u64 length : {job.left, whole}) {
        const Result<u64> shared = request.volume->share_range(
            job.source, job.source_offset, job.target, job.target_offset, length, Stamp::no);
        if (shared) return job.advance(*shared);
        if (shared.code() != Errc::invalid) return;
    }
}

void copy_range(fuse_req_t raw, fuse_ino_t source_node, off_t source_offset,
                fuse_file_info* source_info, fuse_ino_t target_node, off_t target_offset,
                fuse_file_info* target_info, size_t length, int flags) {
    const Request request(raw, target_node);
    if (flags != 0) return request.reply(Errc::invalid);
    // The kernel asks again for the rest. The reply counts in 32 bits, rounded down to whole blocks
    // so that the rest can be shared, too. Copying is limited because it occupies this thread and
    // no signal ends it.
    constexpr u64 answered_max = ~u32{0} / (4 * kib) * (4 * kib);
    constexpr u64 copied_max = 256 * mib;
    CopyJob job{handle_of(request, source_node, source_info),
                handle_of(request, target_node, target_info), static_cast<u64>(source_offset),
                static_cast<u64>(target_offset)};
    const Result<Attributes> source = request.volume->attributes(job.source);
    if (!source) return request.reply(source.code());
    const u64 behind = source->size > job.source_offset ? source->size - job.source_offset : 0;
    job.left = std::min({static_cast<u64>(length), behind, answered_max});
    if (job.left > 0) share_blocks(request, job);
    job.left = std::min(job.left, copied_max);
    job.buffer = thread_buffer(std::min<u64>(job.left, request_limit_bytes));
    Errc code = Errc::ok;
    while (job.left > 0 && code == Errc::ok)
        code = copy_step(request, job);
    if (code != Errc::ok && job.done == 0) return request.reply(code);
    request.mount.unsaved.note(target_node);
    fuse_reply_write(raw, job.done);
}

}  // namespace

void add_content_operations(fuse_lowlevel_ops& operations) {
    operations.open = guarded<open>;
    operations.create = guarded<create>;
    operations.release = guarded<release>;
    operations.read = guarded<read>;
    operations.write = guarded<write>;
    operations.flush = guarded<flush>;
    operations.fsync = guarded<sync>;
    operations.fallocate = guarded<allocate>;
    operations.lseek = guarded<seek>;
    operations.copy_file_range = guarded<copy_range>;
}

}  // namespace warren::fuse
