// SPDX-License-Identifier: Apache-2.0
// A file of the host as the disk of a volume, accessed by io_uring, and a MemoryDisk that records
// each request when the kernel completes it: power cuts then fall between the requests themselves,
// in the order of their completion, and not between calls of Disk.
//
// Invariant: after a flush, the file and the log have the same contents.
#pragma once

#include <memory>
#include <string>

#include "fs/disk/file_disk.hpp"
#include "tests/support/memory_disk.hpp"

namespace warren {

class RecordedFileDisk final : public Disk {
 public:
    /// Creates `path` with the contents of `log`. Null, with the reason in `why`, if the host does
    /// not support `access`.
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
    /// A write that completes during the flush counts as one after it.
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
