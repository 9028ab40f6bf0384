// SPDX-License-Identifier: Apache-2.0
// A file on the host as the disk of a volume, on a way by io_uring, with a MemoryDisk that is told
// of every request that the kernel has finished: power cuts then fall between the requests
// themselves, in the order in which they came back, and not between calls of Disk.
//
// Invariant: whatever the file holds after a flush, the log's contents are the same bytes.
#pragma once

#include <memory>
#include <string>

#include "fs/disk/file_disk.hpp"
#include "tests/support/memory_disk.hpp"

namespace warren {

class RecordedFileDisk final : public Disk {
 public:
    /// Makes `path` with the contents of `log`. Null, and `why`, if the host refuses the way.
    static std::unique_ptr<RecordedFileDisk> make(const std::string& path, DiskAccess access,
                                                  MemoryDisk& log, std::string& why);

    u64 size_bytes() const override { return file_->size_bytes(); }
    Errc read(u64 offset, std::span<std::byte> target) override {
        return file_->read(offset, target);
    }
    Errc write(u64 offset, std::span<const std::byte> source) override {
        return file_->write(offset, source);
    }
    Errc read_many(std::span<const DiskRead> reads) override { return file_->read_many(reads); }
    Errc write_many(std::span<const DiskWrite> writes) override {
        return file_->write_many(writes);
    }
    /// A write that comes back while the flush runs counts as one behind it.
    Errc flush() override {
        const Errc logged = log_.flush();
        return logged == Errc::ok ? file_->flush() : logged;
    }
    Errc discard(u64 offset, u64 length_bytes) override {
        const Errc logged = log_.discard(offset, length_bytes);
        return logged == Errc::ok ? file_->discard(offset, length_bytes) : logged;
    }

 private:
    RecordedFileDisk(std::unique_ptr<FileDisk> file, MemoryDisk& log)
        : file_(std::move(file)), log_(log) {}

    std::unique_ptr<FileDisk> file_;
    MemoryDisk& log_;
};

}  // namespace warren
