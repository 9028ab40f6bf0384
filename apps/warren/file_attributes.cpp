// SPDX-License-Identifier: Apache-2.0
// A change of owner takes set-id bits and capabilities away, and a list of access changes the bits
// of the group: so owner first, then attributes, then mode, and the times at the very end.
#include "apps/warren/file_attributes.hpp"

#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace warren::cli {

namespace {

constexpr u32 permission_bits = 07777;

timespec time_of(const statx_timestamp& time) {
    return {time.tv_sec, static_cast<long>(time.tv_nsec)};
}

bool is_left_out(int error) {
    return error == ENOTSUP || error == EPERM || error == EACCES || error == ENOSYS;
}

/// The names of the attributes, sorted; empty if the file system has none.
int list_attributes(const std::string& path, std::vector<std::string>& names) {
    std::vector<char> text(1024);
    ssize_t size = 0;
    while ((size = ::llistxattr(path.c_str(), text.data(), text.size())) < 0) {
        if (errno != ERANGE) return is_left_out(errno) ? 0 : errno;
        text.resize(text.size() * 8);
    }
    for (const char* at = text.data(); at < text.data() + size; at += names.back().size() + 1)
        names.emplace_back(at);
    std::sort(names.begin(), names.end());
    return 0;
}

int get_attribute(const std::string& path, const std::string& name, std::string& value) {
    value.resize(256);
    ssize_t size = 0;
    while ((size = ::lgetxattr(path.c_str(), name.c_str(), value.data(), value.size())) < 0) {
        if (errno != ERANGE) return errno;
        value.resize(value.size() * 16);
    }
    value.resize(static_cast<size_t>(size));
    return 0;
}

/// Whether an attribute that the source has not is taken from the target. Labels of security
/// modules are given by the system, not by the source.
bool may_go(const std::string& name) {
    return name.starts_with("user.") || name.starts_with("system.posix_acl_");
}

Fault keep_extended_attributes(const Place& from, const Place& to) {
    const std::string source = path_for_system(from);
    const std::string target = path_for_system(to);
    std::vector<std::string> names;
    std::vector<std::string> others;
    if (const int error = list_attributes(source, names)) return {error, "list attributes of"};
    if (const int error = list_attributes(target, others)) {
        return {error, "list attributes of", true};
    }
    for (const std::string& other : others) {
        if (!may_go(other) || std::binary_search(names.begin(), names.end(), other)) continue;
        static_cast<void>(::lremovexattr(target.c_str(), other.c_str()));
    }
    std::string value;
    for (const std::string& name : names) {
        const int error = get_attribute(source, name, value);
        if (error == ENODATA || is_left_out(error)) continue;
        if (error != 0) return {error, "read an attribute of"};
        if (::lsetxattr(target.c_str(), name.c_str(), value.data(), value.size(), 0) == 0) continue;
        if (!is_left_out(errno)) return {errno, "set an attribute of", true};
    }
    return {};
}

}  // namespace

Kept kept_of(const struct statx& status) {
    return {status.stx_mode, status.stx_uid, status.stx_gid, time_of(status.stx_atime),
            time_of(status.stx_mtime)};
}

Fault keep_attributes(const Place& from, const Place& to, const Kept& kept) {
    u32 mode = kept.mode & permission_bits;
    if (::fchownat(to.directory, to.name, kept.user, kept.group, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != EPERM && errno != EINVAL) return {errno, "preserve ownership of", true};
        mode &= 01777;
        static_cast<void>(::fchownat(to.directory, to.name, ~0u, kept.group, AT_SYMLINK_NOFOLLOW));
    }
    if (const Fault fault = keep_extended_attributes(from, to)) return fault;
    if (!S_ISLNK(kept.mode)) {
        if (const int error = change_mode(to, mode)) return {error, "set the mode of", true};
    }
    const timespec times[] = {kept.accessed, kept.modified};
    if (::utimensat(to.directory, to.name, times, AT_SYMLINK_NOFOLLOW) != 0) {
        return {errno, "preserve times of", true};
    }
    return {};
}

bool same_extended_attributes(const Place& first, const Place& second) {
    const std::string one = path_for_system(first);
    const std::string two = path_for_system(second);
    std::vector<std::string> names;
    std::vector<std::string> others;
    if (list_attributes(one, names) != 0 || list_attributes(two, others) != 0) return false;
    if (names != others) return false;
    std::string value;
    std::string other;
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        const int error = get_attribute(one, name, value);
        return error == get_attribute(two, name, other) && (error != 0 || value == other);
    });
}

}  // namespace warren::cli
