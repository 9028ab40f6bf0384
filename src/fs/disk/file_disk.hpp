// SPDX-License-Identifier: Apache-2.0
// A volume in an image file or on a block device. It is accessed by pread(2) and pwrite(2), or by
// concurrent requests of io_uring(7), which may bypass the page cache (O_DIRECT).
//
// Invariant: while a FileDisk is open for writing, no other FileDisk of the same file or device is
// open in any process; any number of readers may share one. The lock ends with the process. If
// another program truncates the file, reads beyond the new end and all writes fail; the missing
// part is never replaced by zeros.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/descriptor.hpp"
#include "fs/disk/disk.hpp"
#include "fs/disk/ring_access.hpp"
#include "warren/volume.hpp"

namespace warren {

enum class OpenMode : u8 { read_only, read_write, create };

class FileDisk final : public Disk {
 public:
    /// Opens and locks `path` (OpenMode::create makes an empty file if there is none). On failure
    /// returns null and sets `failure`.
    static std::unique_ptr<FileDisk> open(const std::string& path, OpenMode mode, Failure& failure);

    /// The size at open() or after resize(), rounded down to whole 4 KiB blocks.
    u64 size_bytes() const override { return size_bytes_; }
    /// Also rounded down to whole blocks.
    Result<u64> present_size() const override;
    Errc read(u64 offset, std::span<std::byte> target) override;
    Errc write(u64 offset, std::span<const std::byte> source) override;
    Errc read_many(std::span<const DiskRead> reads) override;
    Errc write_many(std::span<const DiskWrite> writes) override;
    Errc flush() override;
    Errc discard(u64 offset, u64 length_bytes) override;
    /// Writes zeros only if the medium cannot zero a range.
    Errc zero(u64 offset, u64 length_bytes) override;

    /// Switches to this access. On Errc::not_supported `why` says which system call refused it, and
    /// the access stays as it was. Requires: a specific access, and exclusive use of the disk.
    Errc use(DiskAccess access, std::string& why);
    DiskAccess access() const { return access_; }
    /// Drops the range from the page cache; a hint.
    void drop_cached(u64 offset, u64 length_bytes);
    /// Whether the file is on a file system in memory (tmpfs, ramfs).
    bool is_in_memory() const;
    /// For tests, not with plain access: see RequestProbe.
    void set_probe(RequestProbe probe) { ring_->set_probe(std::move(probe)); }

    /// Sets the size of an image file; new bytes are holes. Errc::not_supported for a device.
    Errc resize(u64 new_size_bytes);
    bool is_device() const { return is_device_; }
    /// Whether open() made the file.
    bool is_new() const { return is_new_; }

 private:
    FileDisk(Descriptor descriptor, bool is_device, bool is_writable, bool is_new)
        : descriptor_(std::move(descriptor)),
          is_device_(is_device),
          is_writable_(is_writable),
          is_new_(is_new) {}
    bool contains(u64 offset, u64 length_bytes) const {
        return offset <= size_bytes_ && length_bytes <= size_bytes_ - offset;
    }
    /// As read_many(). Ranges of which each begins where the one before ends share one preadv(2).
    Errc read_runs(std::span<const DiskRead> reads);
    Errc measure();
    Errc check_size() const;
    Errc check_writable() const;
    bool set_direct(bool is_direct);
    /// Punches a hole in a file; sends `request` (BLKDISCARD, BLKZEROOUT) to a device.
    int empty_range(unsigned long request, u64 offset, u64 length_bytes);

    Descriptor descriptor_;
    bool is_device_;
    bool is_writable_;
    bool is_new_;
    u64 size_bytes_ = 0;
    DiskAccess access_ = DiskAccess::plain;
    std::unique_ptr<RingAccess> ring_;  // null with plain access
};

}  // namespace warren
