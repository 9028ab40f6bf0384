// SPDX-License-Identifier: Apache-2.0
// A path belongs to the last mount in the table that has its device number.
#include "apps/warren/mounts.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace warren::cli {

namespace {

/// Undoes the kernel's \ooo for blanks and the like.
std::string unescape(const std::string& text) {
    std::string result;
    for (size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '\\' && at + 3 < text.size()) {
            result += static_cast<char>(std::stoi(text.substr(at + 1, 3), nullptr, 8));
            at += 3;
        } else {
            result += text[at];
        }
    }
    return result;
}

u64 device_number(const std::string& text) {
    unsigned long major = 0;
    unsigned long minor = 0;
    if (std::sscanf(text.c_str(), "%lu:%lu", &major, &minor) != 2) return 0;
    return u64{major} << 32 | minor;
}

std::string real_path(const std::string& path) {
    char* resolved = ::realpath(path.c_str(), nullptr);
    if (resolved == nullptr) return path;
    std::string result = resolved;
    std::free(resolved);
    return result;
}

}  // namespace

std::vector<Mount> all_mounts() {
    std::vector<Mount> mounts;
    std::ifstream table("/proc/self/mountinfo");
    for (std::string line; std::getline(table, line);) {
        std::istringstream words(line);
        std::string id, parent, device, root, point, word;
        words >> id >> parent >> device >> root >> point;
        while (words >> word && word != "-") {
        }
        std::string type, source;
        words >> type >> source;
        mounts.push_back({unescape(point), unescape(source), type, device_number(device)});
    }
    return mounts;
}

std::optional<Mount> mount_of_path(const std::string& path) {
    struct statx found {};
    if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE,
                &found) != 0) {
        return {};
    }
    const u64 device = u64{found.stx_dev_major} << 32 | found.stx_dev_minor;
    std::optional<Mount> result;
    for (Mount& mount : all_mounts()) {
        if (mount.device == device) result = std::move(mount);
    }
    return result;
}

std::string mount_point_of_image(const std::string& image) {
    const std::string wanted = real_path(image);
    std::string point;
    for (const Mount& mount : all_mounts()) {
        if (mount.is_warren() && real_path(mount.image) == wanted) point = mount.point;
    }
    return point;
}

}  // namespace warren::cli
