// SPDX-License-Identifier: Apache-2.0
// An interface to a directory of either an opened volume or the host, so that the commands that
// work file by file (cp, ls, cat, mkdir, ln, touch, stat) need not distinguish them.
//
// Invariant: a name is a path relative to the directory; "" is the directory itself. Symbolic links
// within the path are followed, a final one only if asked to. Errors are returned, nothing is
// printed.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warren/volume_path.hpp"

namespace warren::cli {

enum class Access : u8 { read, write };

/// What stat(2) returns, and the file system that the inode number belongs to.
struct Facts {
    Attributes attributes;
    u64 file_system = 0;

    bool is_directory() const { return (attributes.mode & 0170000) == 0040000; }
    bool is_regular() const { return (attributes.mode & 0170000) == 0100000; }
    bool is_link() const { return (attributes.mode & 0170000) == 0120000; }
    bool is_same(const Facts& other) const {
        return file_system == other.file_system &&
               attributes.handle.inode == other.attributes.handle.inode;
    }
};

struct Name {
    std::string name;
    u64 inode = 0;
};

class OpenFile {
 public:
    virtual ~OpenFile() = default;
    virtual Result<u64> read(u64 offset, std::span<std::byte> target) = 0;
    virtual Result<u64> write(u64 offset, std::span<const std::byte> source) = 0;
    /// The next data or hole from `offset` on; Errc 6 (ENXIO) if there is none.
    virtual Result<u64> seek(u64 offset, Seek whence) = 0;
    virtual Errc set_size(u64 size_bytes) = 0;
    /// Makes this empty file share all blocks of `source`.
    virtual Errc share_blocks_of(OpenFile& source) = 0;
    /// Closes the file and returns any error of delayed writes.
    virtual Errc close() = 0;
};

/// Reads until `target` is full or the file ends; returns the number of bytes read.
inline Result<u64> read_fully(OpenFile& file, u64 offset, std::span<std::byte> target) {
    u64 filled = 0;
    while (filled < target.size()) {
        const Result<u64> got = file.read(offset + filled, target.subspan(filled));
        if (!got) return got;
        if (*got == 0) break;
        filled += *got;
    }
    return filled;
}

class Directory {
 public:
    virtual ~Directory() = default;

    virtual Result<Facts> stat(std::string_view name, Follow follow) = 0;
    /// The names in the directory, without "." and "..", in any order.
    virtual Errc list(std::vector<Name>& names) = 0;
    virtual Errc open_directory(std::string_view name, Follow follow,
                                std::shared_ptr<Directory>& result) = 0;
    /// Opens an existing file.
    virtual Errc open_file(std::string_view name, Follow follow, Access access,
                           std::unique_ptr<OpenFile>& result) = 0;
    /// Creates a file, which must not exist, and opens it for writing.
    virtual Errc create_file(std::string_view name, u32 mode,
                             std::unique_ptr<OpenFile>& result) = 0;
    /// Creates a directory, symbolic link, device, pipe, socket or empty file (by options.mode).
    virtual Errc create(std::string_view name, const CreateOptions& options) = 0;
    /// Creates the hard link `name` to `existing`; a link is not followed.
    virtual Errc link(std::string_view existing, std::string_view name) = 0;
    /// Removes a name of anything but a directory.
    virtual Errc remove(std::string_view name) = 0;
    /// Removes an empty directory.
    virtual Errc remove_directory(std::string_view name) = 0;
    virtual Errc read_link(std::string_view name, std::string& target) = 0;
    /// Changes mode, owner and times. Requires: a mode is changed with Follow::no.
    virtual Errc change(std::string_view name, Follow follow, const AttributeChange& change) = 0;

    // Extended attributes of the name itself; a link is not followed.
    virtual Errc list_attributes(std::string_view name, std::vector<std::string>& names) = 0;
    virtual Errc get_attribute(std::string_view name, const std::string& attribute,
                               std::vector<std::byte>& value) = 0;
    virtual Errc set_attribute(std::string_view name, const std::string& attribute,
                               std::span<const std::byte> value) = 0;
};

inline constexpr Errc no_such_place = static_cast<Errc>(6);  // ENXIO: no data beyond this offset

/// The host's files, relative to the working directory.
std::shared_ptr<Directory> host_directory();

/// The files of `volume`, relative to its root. Requires: the volume outlives the directory.
std::shared_ptr<Directory> volume_directory(Volume& volume, const Caller& caller);

/// The last component of a path, without trailing slashes; "/" for the root, "" for "".
std::string_view last_component(std::string_view path);

/// Whether two paths are of one name in one directory, however they are spelled: "a" and "./a".
bool is_same_name(Directory& start, std::string_view one, std::string_view other);

/// directory + "/" + name, with one slash between them.
std::string joined(std::string_view directory, std::string_view name);

}  // namespace warren::cli
