// SPDX-License-Identifier: Apache-2.0
// A change of owner clears set-id bits and capabilities, and setting an access control list changes
// the group's permission bits. So the order is: owner, extended attributes, mode, times.
#include "apps/warren/file_attributes.hpp"

#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <span>
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

/// The extended attributes of a place, accessed through its descriptor if it has one.
class ExtendedAttributes {
 public:
    explicit ExtendedAttributes(const Place& place) : file_(place.file) {
        if (file_ < 0) path_ = path_for_system(place);
    }

    /// Their names, sorted; empty if the file system supports none.
    int list(std::vector<std::string>& names) const {
        char few[1024];
        std::vector<char> many;
        std::span<char> text = few;
        ssize_t size = 0;
        while ((size = file_ >= 0 ? ::flistxattr(file_, text.data(), text.size())
                                  : ::llistxattr(path_.c_str(), text.data(), text.size())) < 0) {
            if (errno != ERANGE) return is_left_out(errno) ? 0 : errno;
            many.resize(text.size() * 8);
            text = many;
        }
        for (const char* at = text.data(); at < text.data() + size; at += names.back().size() + 1)
            names.emplace_back(at);
        std::sort(names.begin(), names.end());
        return 0;
    }

    int get(const std::string& name, std::string& value) const {
        value.resize(256);
        ssize_t size = 0;
        while ((size = file_ >= 0 ? ::fgetxattr(file_, name.c_str(), value.data(), value.size())
                                  : ::lgetxattr(path_.c_str(), name.c_str(), value.data(),
                                                value.size())) < 0) {
            if (errno != ERANGE) return errno;
            value.resize(value.size() * 16);
        }
        value.resize(static_cast<size_t>(size));
        return 0;
    }

    int set(const std::string& name, const std::string& value) const {
        const int done =
            file_ >= 0 ? ::fsetxattr(file_, name.c_str(), value.data(), value.size(), 0)
                       : ::lsetxattr(path_.c_str(), name.c_str(), value.data(), value.size(), 0);
        return done == 0 ? 0 : errno;
    }

    int remove(const std::string& name) const {
        const int done = file_ >= 0 ? ::fremovexattr(file_, name.c_str())
                                    : ::lremovexattr(path_.c_str(), name.c_str());
        return done == 0 || errno == ENODATA ? 0 : errno;
    }

 private:
    int file_;
    std::string path_;
};

int set_owner(const Place& place, u32 user, u32 group) {
    const int done =
        place.file >= 0 ? ::fchown(place.file, user, group)
                        : ::fchownat(place.directory, place.name, user, group, AT_SYMLINK_NOFOLLOW);
    return done == 0 ? 0 : errno;
}

/// Whether users, not the system, set this attribute. Only such attributes are removed from a copy
/// that must not have them; security labels are set by the system.
bool is_given_by_users(const std::string& name) {
    return name.starts_with("user.") || name.starts_with("system.posix_acl_");
}

bool is_wanted(const std::string& name, const Keeps& keeps) {
    if (name.starts_with("system.posix_acl_")) return keeps.mode;
    return name == "security.selinux" ? keeps.context : keeps.extended;
}

/// `wanted` tells for a name whether to keep it.
template <class Wanted>
Fault keep_extended_attributes(const Place& from, const Place& to, const Wanted& wanted) {
    const ExtendedAttributes source(from);
    const ExtendedAttributes target(to);
    std::vector<std::string> names;
    std::vector<std::string> others;
    if (const int error = source.list(names)) return {error, "list attributes of"};
    if (const int error = target.list(others)) return {error, "list attributes of", true};
    for (const std::string& other : others) {
        const bool is_known = std::binary_search(names.begin(), names.end(), other);
        if (is_known || !is_given_by_users(other) || !wanted(other)) continue;
        const int error = target.remove(other);
        if (error != 0 && !is_left_out(error)) return {error, "remove an attribute of", true};
    }
    std::string value;
    for (const std::string& name : names) {
        if (!wanted(name)) continue;
        int error = source.get(name, value);
        if (error == ENODATA || is_left_out(error)) continue;
        if (error != 0) return {error, "read an attribute of"};
        error = target.set(name, value);
        if (error != 0 && !is_left_out(error)) return {error, "set an attribute of", true};
    }
    return {};
}

}  // namespace

Kept kept_of(const struct statx& status) {
    return {status.stx_mode, status.stx_uid, status.stx_gid, time_of(status.stx_atime),
            time_of(status.stx_mtime)};
}

Fault keep_attributes(const Place& from, const Place& to, const Kept& kept, const Keeps& keeps) {
    u32 mode = kept.mode & permission_bits;
    const int owner_error = keeps.owner ? set_owner(to, kept.user, kept.group) : 0;
    if (owner_error != 0) {
        if (owner_error != EPERM && owner_error != EINVAL) {
            return {owner_error, "preserve ownership of", true};
        }
        mode &= 01777;
        static_cast<void>(set_owner(to, ~0u, kept.group));
    }
    if (keeps.mode || keeps.extended || keeps.context) {
        const auto wanted = [&](const std::string& name) { return is_wanted(name, keeps); };
        if (const Fault fault = keep_extended_attributes(from, to, wanted)) return fault;
    }
    if (keeps.mode && !S_ISLNK(kept.mode)) {
        if (const int error = change_mode(to, mode)) return {error, "set the mode of", true};
    }
    if (!keeps.times) return {};
    const timespec times[] = {kept.accessed, kept.modified};
    const int done = to.file >= 0 ? ::futimens(to.file, times)
                                  : ::utimensat(to.directory, to.name, times, AT_SYMLINK_NOFOLLOW);
    if (done != 0) return {errno, "preserve times of", true};
    return {};
}

Fault keep_replaced_attributes(const Place& replaced, const Place& to) {
    return keep_extended_attributes(replaced, to, is_given_by_users);
}

bool same_extended_attributes(const Place& first, const Place& second) {
    const ExtendedAttributes one(first);
    const ExtendedAttributes two(second);
    std::vector<std::string> names;
    std::vector<std::string> others;
    if (one.list(names) != 0 || two.list(others) != 0 || names != others) return false;
    std::string value;
    std::string other;
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        const int error = one.get(name, value);
        return error == two.get(name, other) && (error != 0 || value == other);
    });
}

}  // namespace warren::cli
