// SPDX-License-Identifier: Apache-2.0
// System calls may transfer less than requested, or be interrupted: every loop here continues until
// the whole request is done or an error occurs.
#include "fs/disk/file_disk.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <system_error>

#include "base/quote.hpp"
#include "base/whole_io.hpp"
#include "fs/disk/disk_error.hpp"
#include "fs/disk/image_lock.hpp"
#include "fs/format/layout.hpp"

namespace warren {
namespace {

// Images are made for their owner alone: another user with permission to read one could lock it,
// and read all files in it.
constexpr mode_t image_mode = 0600;
constexpr int claim_tries = 20;
constexpr std::size_t run_targets_max = 256;  // of one preadv()
static_assert(run_targets_max <= IOV_MAX);
constexpr long claim_wait_nanoseconds = 50'000'000;

Failure open_failure(const std::string& path, OpenMode mode, int error) {
    const std::string start = quoted_if_needed(path) + ": ";
    switch (error) {
        case ENOENT:
        case ENOTDIR:
            return {Errc::no_entry,
                    start + "No such file or directory; check the path" +
                        (mode == OpenMode::create ? "" : ", or make a volume with 'warren mkfs'")};
        case EACCES:
        case EPERM:
            return {Errc::access,
                    start + "permission denied; change its permissions or run as its owner"};
        case EROFS:
            return {Errc::read_only,
                    start + "is on a read-only file system; open it read-only or copy it"};
        case EBUSY:
            return {Errc::busy, start + "the device is in use (" + device_claim(path) +
                                    "); unmount it or stop what uses it"};
        default:
            return {Errc::io, start + "cannot open: " + std::generic_category().message(error) +
                                  "; check the path and the system's log"};
    }
}

Failure in_use_failure(const std::string& path, int descriptor) {
    return {Errc::busy, quoted_if_needed(path) + ": in use by " + lock_holder(descriptor) +
                            "; unmount it there or wait until that process has ended"};
}

/// Fails unless `path` is a regular file or a block device. OpenMode::create also accepts a path
/// that does not exist.
Failure check_type(const std::string& path, OpenMode mode, bool& is_device, bool& is_missing) {
    struct stat status {};
    is_device = false;
    is_missing = false;
    if (::stat(path.c_str(), &status) != 0) {
        is_missing = errno == ENOENT && mode == OpenMode::create;
        return is_missing ? Failure{} : open_failure(path, mode, errno);
    }
    is_device = S_ISBLK(status.st_mode);
    if (is_device || S_ISREG(status.st_mode)) return {};
    const char* what = S_ISDIR(status.st_mode) ? "is a directory" : "is no file or block device";
    return {S_ISDIR(status.st_mode) ? Errc::is_directory : Errc::invalid,
            quoted_if_needed(path) + ": " + what + "; name an image file or a block device"};
}

/// open(2), retried for a second while a device is claimed, because a device prober may hold it for
/// a moment.
int open_claimed(const std::string& path, int flags) {
    for (int tries = claim_tries;;) {
        const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, image_mode);
        if (descriptor >= 0) return descriptor;
        if (errno == EINTR) continue;
        if (errno != EBUSY || --tries == 0) return -1;
        const timespec wait{0, claim_wait_nanoseconds};
        ::nanosleep(&wait, nullptr);
        errno = EBUSY;
    }
}

}  // namespace

std::unique_ptr<FileDisk> FileDisk::open(const std::string& path, OpenMode mode, Failure& failure) {
    bool is_device = false;
    bool is_missing = false;
    failure = check_type(path, mode, is_device, is_missing);
    if (failure.code != Errc::ok) return nullptr;

    const bool is_writable = mode != OpenMode::read_only;
    // O_EXCL on a device without O_CREAT refuses one that is mounted or otherwise claimed. A reader
    // closes that descriptor and opens the device again without O_EXCL, so others can read as well.
    int flags = is_writable ? O_RDWR : O_RDONLY;
    if (is_device || is_missing) flags |= O_EXCL;
    if (is_missing) flags |= O_CREAT;
    Descriptor opened(open_claimed(path, flags));
    if (opened && is_device && !is_writable) {
        opened.close();
        opened = Descriptor(open_claimed(path, O_RDONLY));
    }
    if (!opened) {
        failure = open_failure(path, mode, errno);
        return nullptr;
    }
    const int descriptor = opened.get();
    std::unique_ptr<FileDisk> disk(
        new FileDisk(std::move(opened), is_device, is_writable, is_missing));
    if (!lock_image(descriptor, is_writable, is_device)) {
        failure = in_use_failure(path, descriptor);
        return nullptr;
    }
    if (disk->measure() != Errc::ok) {
        failure = {Errc::io,
                   quoted_if_needed(path) + ": its size cannot be found out; check the device"};
        return nullptr;
    }
    return disk;
}

Result<u64> FileDisk::present_size() const {
    u64 bytes = 0;
    if (is_device_) {
        if (::ioctl(descriptor_.get(), BLKGETSIZE64, &bytes) != 0) return disk_error(errno);
    } else {
        // Ask for the size alone: a network file system writes dirty data back before it returns
        // the times.
        struct statx status {};
        if (::statx(descriptor_.get(), "", AT_EMPTY_PATH, STATX_SIZE, &status) != 0) {
            return disk_error(errno);
        }
        bytes = status.stx_size;
    }
    return bytes / format::block_size * format::block_size;
}

Errc FileDisk::measure() {
    const Result<u64> size = present_size();
    if (size) size_bytes_ = *size;
    return size.code();
}

/// Errc::io if the disk is smaller than size_bytes().
Errc FileDisk::check_size() const {
    WARREN_LET(size, present_size());
    return *size < size_bytes_ ? Errc::io : Errc::ok;
}

/// Called before each write, because a write beyond the end of a truncated file would extend it
/// again, with zeros between.
Errc FileDisk::check_writable() const {
    return is_writable_ ? check_size() : Errc::read_only;
}

bool FileDisk::set_direct(bool is_direct) {
    const int flags = ::fcntl(descriptor_.get(), F_GETFL);
    const int wanted = is_direct ? flags | O_DIRECT : flags & ~O_DIRECT;
    return flags >= 0 && (flags == wanted || ::fcntl(descriptor_.get(), F_SETFL, wanted) == 0);
}

Errc FileDisk::use(DiskAccess access, std::string& why) {
    if (access == access_) return Errc::ok;
    std::unique_ptr<RingAccess> ring;
    if (access != DiskAccess::plain) {
        int error = 0;
        const u64 unit = access == DiskAccess::direct ? format::block_size : 1;
        ring = RingAccess::open(descriptor_.get(), unit, error);
        if (ring == nullptr) {
            why = "io_uring: " + std::generic_category().message(error);
            return Errc::not_supported;
        }
    }
    if (!set_direct(access == DiskAccess::direct)) {
        why = "O_DIRECT: " + std::generic_category().message(errno);
        return Errc::not_supported;
    }
    // Some file systems accept the flag O_DIRECT but fail the requests, so a block is read.
    format::Block block;
    const DiskRead first{0, std::as_writable_bytes(std::span(&block, 1))};
    if (access == DiskAccess::direct && size_bytes_ > 0 &&
        ring->read(std::span(&first, 1)) != Errc::ok) {
        why = "O_DIRECT: its requests are refused";
        static_cast<void>(set_direct(access_ == DiskAccess::direct));
        return Errc::not_supported;
    }
    access_ = access;
    ring_ = std::move(ring);
    return Errc::ok;
}

void FileDisk::drop_cached(u64 offset, u64 length_bytes) {
    static_cast<void>(::posix_fadvise(descriptor_.get(), static_cast<off_t>(offset),
                                      static_cast<off_t>(length_bytes), POSIX_FADV_DONTNEED));
}

bool FileDisk::is_in_memory() const {
    struct statfs system {};
    if (is_device_ || ::fstatfs(descriptor_.get(), &system) != 0) return false;
    return system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
}

Errc FileDisk::read_runs(std::span<const DiskRead> reads) {
    std::array<iovec, run_targets_max> targets;
    while (!reads.empty()) {
        const u64 begin = reads.front().offset;
        u64 end = begin;
        std::size_t count = 0;
        std::size_t used = 0;
        for (; count < reads.size() && reads[count].offset == end; ++count) {
            const std::span<std::byte> target = reads[count].target;
            iovec* last = used > 0 ? &targets[used - 1] : nullptr;
            if (last != nullptr &&
                static_cast<std::byte*>(last->iov_base) + last->iov_len == target.data()) {
                last->iov_len += target.size();
            } else {
                if (used == targets.size()) break;
                targets[used++] = {target.data(), target.size()};
            }
            end += target.size();
        }
        reads = reads.subspan(count);
        if (!contains(begin, end - begin)) return Errc::io;
        const Result<u64> got =
            read_fully(descriptor_.get(), begin, std::span(targets).first(used));
        if (!got) return disk_error(static_cast<int>(got.code()));
        // A short read: the file was truncated after its size was read.
        if (*got != end - begin) return Errc::io;
    }
    return Errc::ok;
}

Errc FileDisk::read_many(std::span<const DiskRead> reads) {
    if (ring_ == nullptr) return read_runs(reads);
    for (const DiskRead& one : reads) {
        if (!contains(one.offset, one.target.size())) return Errc::io;
    }
    return ring_->read(reads);
}

Errc FileDisk::write_many(std::span<const DiskWrite> writes) {
    if (ring_ == nullptr) return Disk::write_many(writes);
    WARREN_TRY(check_writable());
    for (const DiskWrite& one : writes) {
        if (!contains(one.offset, one.source.size())) return Errc::io;
    }
    return ring_->write(writes);
}

Errc FileDisk::read(u64 offset, std::span<std::byte> target) {
    const DiskRead one{offset, target};
    return read_many(std::span(&one, 1));
}

Errc FileDisk::write(u64 offset, std::span<const std::byte> source) {
    if (ring_ != nullptr) {
        const DiskWrite one{offset, source};
        return write_many(std::span(&one, 1));
    }
    WARREN_TRY(check_writable());
    if (!contains(offset, source.size())) return Errc::io;
    const Errc code = write_fully(descriptor_.get(), offset, source);
    return code == Errc::ok ? code : disk_error(static_cast<int>(code));
}

Errc FileDisk::flush() {
    if (!is_writable_) return Errc::ok;
    while (::fdatasync(descriptor_.get()) != 0) {
        if (errno != EINTR) return disk_error(errno);
    }
    return check_size();
}

int FileDisk::empty_range(unsigned long request, u64 offset, u64 length_bytes) {
    int result;
    do {
        if (is_device_) {
            u64 range[2] = {offset, length_bytes};
            result = ::ioctl(descriptor_.get(), request, range);
        } else {
            result = ::fallocate(descriptor_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 static_cast<off_t>(offset), static_cast<off_t>(length_bytes));
        }
    } while (result != 0 && errno == EINTR);
    return result;
}

Errc FileDisk::discard(u64 offset, u64 length_bytes) {
    if (!is_writable_) return Errc::read_only;
    if (!contains(offset, length_bytes)) return Errc::io;
    if (length_bytes == 0) return Errc::ok;
    const int result = empty_range(BLKDISCARD, offset, length_bytes);
    if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS || errno == ENOTTY) return Errc::ok;
    return disk_error(errno);
}

Errc FileDisk::zero(u64 offset, u64 length_bytes) {
    if (!is_writable_) return Errc::read_only;
    if (!contains(offset, length_bytes)) return Errc::io;
    if (length_bytes == 0) return Errc::ok;
    const int result = empty_range(BLKZEROOUT, offset, length_bytes);
    return result == 0 ? Errc::ok : Disk::zero(offset, length_bytes);
}

Errc FileDisk::resize(u64 new_size_bytes) {
    if (is_device_) return Errc::not_supported;
    if (!is_writable_) return Errc::read_only;
    while (::ftruncate(descriptor_.get(), static_cast<off_t>(new_size_bytes)) != 0) {
        if (errno == EFBIG || errno == EINVAL) return Errc::file_too_big;
        if (errno != EINTR) return disk_error(errno);
    }
    // fsync, because the new size is metadata, which fdatasync need not write.
    while (::fsync(descriptor_.get()) != 0) {
        if (errno != EINTR) return disk_error(errno);
    }
    return measure();
}

}  // namespace warren
