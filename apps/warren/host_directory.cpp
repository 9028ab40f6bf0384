// SPDX-License-Identifier: Apache-2.0
// Implements the interface of directory.hpp for a directory of the host. Names are resolved from a
// descriptor, so paths may exceed PATH_MAX, and the directory may be moved while it is in use.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "apps/warren/directory.hpp"
#include "apps/warren/file_contents.hpp"
#include "apps/warren/host_attributes.hpp"
#include "apps/warren/place.hpp"
#include "base/check.hpp"
#include "base/file_time.hpp"
#include "base/last_error.hpp"

namespace warren::cli {

namespace {

class HostFile : public OpenFile {
 public:
    explicit HostFile(int descriptor) : descriptor_(descriptor) {}
    ~HostFile() override {
        if (descriptor_ >= 0) ::close(descriptor_);
    }

    /// A pipe has no offsets; it is read sequentially.
    Result<u64> read(u64 offset, std::span<std::byte> target) override {
        while (true) {
            ssize_t got = stream_ ? ::read(descriptor_, target.data(), target.size())
                                  : ::pread(descriptor_, target.data(), target.size(),
                                            static_cast<off_t>(offset));
            if (got >= 0) return static_cast<u64>(got);
            if (errno == ESPIPE && !stream_) {
                stream_ = true;
            } else if (errno != EINTR) {
                return last_error();
            }
        }
    }

    Result<u64> write(u64 offset, std::span<const std::byte> source) override {
        while (true) {
            ssize_t put = stream_ ? ::write(descriptor_, source.data(), source.size())
                                  : ::pwrite(descriptor_, source.data(), source.size(),
                                             static_cast<off_t>(offset));
            if (put >= 0) return static_cast<u64>(put);
            if (errno == ESPIPE && !stream_) {
                stream_ = true;
            } else if (errno != EINTR) {
                return last_error();
            }
        }
    }

    Result<u64> seek(u64 offset, Seek whence) override {
        const off_t found = ::lseek(descriptor_, static_cast<off_t>(offset),
                                    whence == Seek::data ? SEEK_DATA : SEEK_HOLE);
        return found < 0 ? Result<u64>(last_error()) : Result<u64>(static_cast<u64>(found));
    }

    Errc share_blocks_of(OpenFile& source) override {
        const auto* from = dynamic_cast<const HostFile*>(&source);
        if (from == nullptr) return Errc::cross_device;
        return static_cast<Errc>(clone_file(from->descriptor_, descriptor_));
    }

    Errc set_size(u64 size_bytes) override {
        return ::ftruncate(descriptor_, static_cast<off_t>(size_bytes)) == 0 ? Errc::ok
                                                                             : last_error();
    }

    Errc close() override {
        const int descriptor = descriptor_;
        descriptor_ = -1;
        return ::close(descriptor) == 0 || errno == EINTR ? Errc::ok : last_error();
    }

 private:
    int descriptor_;
    bool stream_ = false;
};

class HostDirectory : public Directory {
 public:
    explicit HostDirectory(int descriptor) : descriptor_(descriptor) {}
    ~HostDirectory() override {
        if (descriptor_ >= 0) ::close(descriptor_);
    }

    Result<Facts> stat(std::string_view name, Follow follow) override;
    Errc list(std::vector<Name>& names) override;
    Errc open_directory(std::string_view name, Follow follow,
                        std::shared_ptr<Directory>& result) override;
    Errc open_file(std::string_view name, Follow follow, Access access,
                   std::unique_ptr<OpenFile>& result) override;
    Errc create_file(std::string_view name, u32 mode, std::unique_ptr<OpenFile>& result) override;
    Errc create(std::string_view name, const CreateOptions& options) override;
    Errc link(std::string_view existing, std::string_view name) override;
    Errc remove(std::string_view name) override;
    Errc remove_directory(std::string_view name) override;
    Errc read_link(std::string_view name, std::string& target) override;
    Errc change(std::string_view name, Follow follow, const AttributeChange& change) override;
    Errc list_attributes(std::string_view name, std::vector<std::string>& names) override;
    Errc get_attribute(std::string_view name, const std::string& attribute,
                       std::vector<std::byte>& value) override;
    Errc set_attribute(std::string_view name, const std::string& attribute,
                       std::span<const std::byte> value) override;

 private:
    /// A path for system calls that take no directory descriptor.
    std::string proc_path(std::string_view name) const {
        const std::string own(name.empty() ? "." : name);
        if (descriptor_ == AT_FDCWD || own.starts_with('/')) return own;
        return "/proc/self/fd/" + std::to_string(descriptor_) + "/" + own;
    }

    int descriptor_;
};

/// "" is the directory itself.
std::string own_name(std::string_view name) {
    return std::string(name.empty() ? "." : name);
}

Result<Facts> HostDirectory::stat(std::string_view name, Follow follow) {
    struct statx found {};
    const int flags = follow == Follow::yes ? 0 : AT_SYMLINK_NOFOLLOW;
    if (::statx(descriptor_, own_name(name).c_str(), flags, host_fields, &found) != 0) {
        return last_error();
    }
    Facts facts;
    facts.attributes = attributes_of(found);
    facts.file_system = u64{found.stx_dev_major} << 32 | found.stx_dev_minor;
    return facts;
}

Errc HostDirectory::list(std::vector<Name>& names) {
    const int copy = ::openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0) return last_error();
    DIR* stream = ::fdopendir(copy);
    if (stream == nullptr) {
        ::close(copy);
        return last_error();
    }
    errno = 0;
    while (const dirent* entry = ::readdir(stream)) {
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
            names.push_back({entry->d_name, entry->d_ino});
        }
        errno = 0;
    }
    const Errc code = last_error();
    ::closedir(stream);
    return code;
}

Errc HostDirectory::open_directory(std::string_view name, Follow follow,
                                   std::shared_ptr<Directory>& result) {
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow == Follow::no ? O_NOFOLLOW : 0);
    const int descriptor = ::openat(descriptor_, own_name(name).c_str(), flags);
    if (descriptor < 0) return last_error();
    result = std::make_shared<HostDirectory>(descriptor);
    return Errc::ok;
}

Errc HostDirectory::open_file(std::string_view name, Follow follow, Access access,
                              std::unique_ptr<OpenFile>& result) {
    const int flags = (access == Access::read ? O_RDONLY : O_WRONLY) | O_CLOEXEC | O_NOCTTY |
                      (follow == Follow::no ? O_NOFOLLOW : 0);
    const int descriptor = ::openat(descriptor_, own_name(name).c_str(), flags);
    if (descriptor < 0) return last_error();
    result = std::make_unique<HostFile>(descriptor);
    return Errc::ok;
}

Errc HostDirectory::create_file(std::string_view name, u32 mode,
                                std::unique_ptr<OpenFile>& result) {
    const int descriptor =
        ::openat(descriptor_, own_name(name).c_str(),
                 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode & 07777);
    if (descriptor < 0) return last_error();
    result = std::make_unique<HostFile>(descriptor);
    return Errc::ok;
}

Errc HostDirectory::create(std::string_view name, const CreateOptions& options) {
    const std::string path = own_name(name);
    const u32 type = options.mode & 0170000;
    int answer = 0;
    if (type == S_IFDIR) {
        answer = ::mkdirat(descriptor_, path.c_str(), options.mode & 07777);
    } else if (type == S_IFLNK) {
        answer = ::symlinkat(std::string(options.target).c_str(), descriptor_, path.c_str());
    } else {
        answer = ::mknodat(descriptor_, path.c_str(), options.mode,
                           makedev(options.device >> 20, options.device & 0xfffff));
    }
    return answer == 0 ? Errc::ok : last_error();
}

Errc HostDirectory::link(std::string_view existing, std::string_view name) {
    return ::linkat(descriptor_, own_name(existing).c_str(), descriptor_, own_name(name).c_str(),
                    0) == 0
               ? Errc::ok
               : last_error();
}

Errc HostDirectory::remove(std::string_view name) {
    return ::unlinkat(descriptor_, own_name(name).c_str(), 0) == 0 ? Errc::ok : last_error();
}

Errc HostDirectory::remove_directory(std::string_view name) {
    return ::unlinkat(descriptor_, own_name(name).c_str(), AT_REMOVEDIR) == 0 ? Errc::ok
                                                                              : last_error();
}

Errc HostDirectory::read_link(std::string_view name, std::string& target) {
    target.resize(4096);
    const ssize_t length =
        ::readlinkat(descriptor_, own_name(name).c_str(), target.data(), target.size());
    if (length < 0) return last_error();
    target.resize(static_cast<size_t>(length));
    return Errc::ok;
}

Errc HostDirectory::change(std::string_view name, Follow follow, const AttributeChange& change) {
    const std::string path = own_name(name);
    const int flag = follow == Follow::yes ? 0 : AT_SYMLINK_NOFOLLOW;
    if ((change.which & (AttributeChange::user | AttributeChange::group)) != 0) {
        const auto keep = static_cast<u32>(-1);
        const u32 user = (change.which & AttributeChange::user) != 0 ? change.new_user : keep;
        const u32 group = (change.which & AttributeChange::group) != 0 ? change.new_group : keep;
        if (::fchownat(descriptor_, path.c_str(), user, group, flag) != 0) {
            return last_error();
        }
    }
    if ((change.which & AttributeChange::mode) != 0) {
        WARREN_CHECK(follow == Follow::no);
        const int error = change_mode({descriptor_, path.c_str()}, change.new_mode & 07777);
        if (error != 0) return static_cast<Errc>(error);
    }
    if ((change.which & (AttributeChange::accessed | AttributeChange::modified)) != 0) {
        timespec times[2] = {to_timespec(change.new_accessed), to_timespec(change.new_modified)};
        if ((change.which & AttributeChange::accessed) == 0) times[0].tv_nsec = UTIME_OMIT;
        if ((change.which & AttributeChange::modified) == 0) times[1].tv_nsec = UTIME_OMIT;
        if (::utimensat(descriptor_, path.c_str(), times, flag) != 0) {
            return last_error();
        }
    }
    return Errc::ok;
}

Errc HostDirectory::list_attributes(std::string_view name, std::vector<std::string>& names) {
    const std::string path = proc_path(name);
    const ssize_t size = ::llistxattr(path.c_str(), nullptr, 0);
    if (size < 0) return last_error();
    if (size == 0) return Errc::ok;
    std::vector<char> text(static_cast<size_t>(size) + 1024);
    const ssize_t filled = ::llistxattr(path.c_str(), text.data(), text.size());
    if (filled < 0) return last_error();
    for (const char* at = text.data(); at < text.data() + filled; at += std::strlen(at) + 1) {
        names.emplace_back(at);
    }
    return Errc::ok;
}

Errc HostDirectory::get_attribute(std::string_view name, const std::string& attribute,
                                  std::vector<std::byte>& value) {
    const std::string path = proc_path(name);
    value.resize(65536);  // the kernel's limit
    const ssize_t filled = ::lgetxattr(path.c_str(), attribute.c_str(), value.data(), value.size());
    if (filled < 0) return last_error();
    value.resize(static_cast<size_t>(filled));
    return Errc::ok;
}

Errc HostDirectory::set_attribute(std::string_view name, const std::string& attribute,
                                  std::span<const std::byte> value) {
    return ::lsetxattr(proc_path(name).c_str(), attribute.c_str(), value.data(), value.size(), 0) ==
                   0
               ? Errc::ok
               : last_error();
}

}  // namespace

std::shared_ptr<Directory> host_directory() {
    return std::make_shared<HostDirectory>(AT_FDCWD);
}

std::string_view last_component(std::string_view path) {
    const size_t end = path.find_last_not_of('/');
    if (end == std::string_view::npos) return path.substr(0, 1);
    path = path.substr(0, end + 1);
    const size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_same_name(Directory& start, std::string_view one, std::string_view other) {
    if (last_component(one) != last_component(other)) return false;
    const auto folder_of = [&](std::string_view path) {
        while (path.size() > 1 && path.ends_with('/'))
            path.remove_suffix(1);
        const std::size_t slash = path.rfind('/');
        return start.stat(slash == path.npos ? "." : std::string(path.substr(0, slash + 1)),
                          Follow::yes);
    };
    const Result<Facts> folder = folder_of(one);
    const Result<Facts> other_folder = folder_of(other);
    return folder && other_folder && folder->is_same(*other_folder);
}

std::string joined(std::string_view directory, std::string_view name) {
    std::string path(directory);
    if (!path.empty() && !path.ends_with('/')) path += '/';
    return path + std::string(name);
}

}  // namespace warren::cli
