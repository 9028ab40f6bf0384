// SPDX-License-Identifier: Apache-2.0
// A file whose contents lie in the memory of the volume's engine, a GPU's or the host's, so that
// kernels and programs work on them in place; see Volume::map_file().
//
// A write to the file through its volume shows in the mapping before the write returns; a part that
// is truncated or punched out reads as zeros. What a kernel writes there is private to the mapping
// until write_back(). The file stays open meanwhile: an unlinked file keeps its contents until it
// is unmapped.
#pragma once

#include <memory>
#include <span>

#include "warren/file_view.hpp"
#include "warren/result.hpp"

namespace warren {

/// Which part of a file is mapped. Bytes behind the end of the file read as zeros, and are the
/// file's once it has grown over them.
struct MapOptions {
    u64 offset = 0;
    u64 length = 0;  // 0: to the end that the file has now
};

class FileMapping;

class MappedFile {
 public:
    explicit MappedFile(std::unique_ptr<FileMapping> mapping);
    ~MappedFile();  // discards what was not written back
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    const FileView& view() const;
    /// Whether the view is in device memory, for kernels and not for the host.
    bool is_on_device() const;

    /// Writes the mapping's bytes [offset, offset + length) of the file to it, as Volume::write()
    /// would. Requires: kernels that write there have ended. Errc::invalid if part of the range is
    /// not mapped, Errc::stale if the volume is closed.
    Errc write_back(u64 offset, u64 length);
    /// Writes back the mapped part up to the file's present end.
    Errc write_back();

    /// Copies the mapping's bytes at `offset` of the file. Errc::invalid if they are not mapped.
    Errc copy_out(u64 offset, std::span<std::byte> target) const;
    /// Puts bytes into the mapping alone, as a kernel would.
    Errc copy_in(u64 offset, std::span<const std::byte> source);

 private:
    std::unique_ptr<FileMapping> mapping_;
};

}  // namespace warren
