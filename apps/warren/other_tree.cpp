// SPDX-License-Identifier: Apache-2.0
// One openat2(2) descends as many levels as fit into a path; where that call is unavailable or
// forbidden, each level is opened separately.
#include "apps/warren/other_tree.hpp"

#include <dirent.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <cerrno>
#include <memory>

namespace warren::cli {

namespace {

constexpr int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

/// Opens the directory `below`, a path shorter than PATH_MAX.
int open_below(int directory, const std::string& below) {
    open_how how{};
    how.flags = static_cast<u64>(flags);
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    const long opened = ::syscall(SYS_openat2, directory, below.c_str(), &how, sizeof how);
    if (opened >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(opened);
    Descriptor at;
    for (size_t begin = 0; begin <= below.size();) {
        const size_t end = std::min(below.find('/', begin), below.size());
        const std::string name = below.substr(begin, end - begin);
        const int from = at ? at.get() : directory;
        Descriptor next(::openat(from, name.c_str(), flags));
        if (!next) return -1;
        at = std::move(next);
        begin = end + 1;
    }
    return ::fcntl(at.get(), F_DUPFD_CLOEXEC, 0);
}

}  // namespace

std::string_view below_root(std::string_view path, std::string_view root) {
    if (path.size() <= root.size()) return "";
    path.remove_prefix(root.size());
    if (!root.ends_with('/') && path.starts_with('/')) path.remove_prefix(1);
    return path;
}

std::string_view without_last(std::string_view below) {
    const size_t slash = below.rfind('/');
    return slash == below.npos ? std::string_view() : below.substr(0, slash);
}

int OtherTree::root_descriptor() {
    std::lock_guard lock(mutex_);
    if (root_directory_) return root_directory_.get();
    Descriptor opened(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat status {};
    if (!opened || ::fstat(opened.get(), &status) != 0) return -1;
    root_device_ = device_of(status);
    root_inode_ = status.st_ino;
    root_directory_ = std::move(opened);
    return root_directory_.get();
}

bool OtherTree::is_root(u64 device, u64 inode) {
    return root_descriptor() >= 0 && root_device_ == device && root_inode_ == inode;
}

Descriptor OtherTree::open(std::string_view below) {
    const int root = root_descriptor();
    if (root < 0) return Descriptor();
    if (below.empty()) return Descriptor(::openat(root, ".", flags));
    Descriptor at;
    while (true) {
        size_t end = below.size();
        if (end > call_path_bytes_max) end = below.rfind('/', call_path_bytes_max);
        const int from = at ? at.get() : root;
        Descriptor next(open_below(from, std::string(below.substr(0, end))));
        if (!next || end == below.size()) return next;
        at = std::move(next);
        below.remove_prefix(end + 1);
    }
}

int OtherTree::directory(std::string_view below) {
    Recent& recent = recent_.local();
    if (recent.directory && recent.below == below) return recent.directory.get();
    recent.directory.close();
    recent.directory = open(below);
    recent.below = below;
    return recent.directory.get();
}

int list_names(int directory, std::vector<std::string>& names) {
    const int own = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) return errno;
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own), ::closedir);
    if (!stream) return errno;
    errno = 0;
    while (const dirent* entry = ::readdir(stream.get())) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
    return errno;
}

}  // namespace warren::cli
