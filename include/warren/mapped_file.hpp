// SPDX-License-Identifier: Apache-2.0
// A file whose contents are in the memory of the volume's engine, on a GPU or on the host, so that
// kernels and programs can work on them in place; see Volume::map_file().
//
// A write to the file through its volume is visible in the mapping before the write returns; a
// range that is truncated or punched out reads as zeros. What a kernel writes to the mapping is
// private to it until write_back(). The file stays open while it is mapped, so an unlinked file
// keeps its contents until then.
#pragma once

#include <memory>
#include <span>

#include "warren/file_view.hpp"
#include "warren/result.hpp"

namespace warren {

/// Which part of a file is mapped. Bytes past the end of the file read as zeros, and become the
/// file's once it has grown over them.
struct MapOptions {
    u64 offset = 0;
    u64 length = 0;  // 0: to the current end of the file
};

class FileMapping;

class MappedFile {
 public:
    explicit MappedFile(std::unique_ptr<FileMapping> mapping);
    ~MappedFile();  // discards changes that were not written back
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    const FileView& view() const;
    /// Whether the view is in device memory, which kernels can access and the host cannot.
    bool is_on_device() const;

    /// Writes bytes [offset, offset + length) of the file from the mapping, as Volume::write()
    /// would. Requires: kernels that write to this range have completed. Errc::invalid: part of the
    /// range is not mapped. Errc::stale: the volume is closed.
    Errc write_back(u64 offset, u64 length);
    /// Writes back the mapped part up to the current end of the file.
    Errc write_back();

    /// Copies bytes at `offset` of the file from the mapping. Errc::invalid if they are not mapped.
    Errc copy_out(u64 offset, std::span<std::byte> target) const;
    /// Copies bytes into the mapping without writing them to the file, as a kernel would.
    Errc copy_in(u64 offset, std::span<const std::byte> source);

 private:
    std::unique_ptr<FileMapping> mapping_;
};

}  // namespace warren
