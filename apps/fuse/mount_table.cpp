// SPDX-License-Identifier: Apache-2.0
// A line of mountinfo: number, parent, major:minor, root, mount point, options, any number of
// optional fields, "-", type, source, options of the file system (proc_pid_mountinfo(5)).
#include "apps/fuse/mount_table.hpp"

#include <charconv>
#include <fstream>
#include <sstream>

namespace warren::fuse {

namespace {

bool is_octal(char character) {
    return character >= '0' && character <= '7';
}

/// The kernel writes blanks and backslashes as a backslash and three octal digits.
std::string unescaped(std::string_view text) {
    std::string result;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) &&
            is_octal(text[i + 2]) && is_octal(text[i + 3])) {
            const int value =
                (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0';
            result += static_cast<char>(value);
            i += 3;
        } else {
            result += text[i];
        }
    }
    return result;
}

u32 to_number(std::string_view text, u32 missing) {
    u32 value = missing;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

MountedPlace parse_line(const std::string& line) {
    std::istringstream words(line);
    std::string number, parent, device, root, mountpoint, word, type, source, options;
    words >> number >> parent >> device >> root >> mountpoint;
    while (words >> word && word != "-") {
    }
    words >> type >> source >> options;
    MountedPlace place;
    const size_t colon = device.find(':');
    place.device_major = to_number(device, 0);
    if (colon != std::string::npos) {
        place.device_minor = to_number(std::string_view(device).substr(colon + 1), 0);
    }
    place.mountpoint = unescaped(mountpoint);
    place.type = type;
    place.source = unescaped(source);
    place.options = options;
    return place;
}

}  // namespace

std::vector<MountedPlace> read_mount_table() {
    std::vector<MountedPlace> places;
    std::ifstream table("/proc/self/mountinfo");
    for (std::string line; std::getline(table, line);)
        places.push_back(parse_line(line));
    return places;
}

bool is_mounted_below(const std::string& path) {
    const std::string below = path.ends_with('/') ? path : path + "/";
    for (const MountedPlace& place : read_mount_table()) {
        if (place.mountpoint == path || place.mountpoint.starts_with(below)) return true;
    }
    return false;
}

u32 option_number(std::string_view options, std::string_view name, u32 missing) {
    const std::string key = std::string(name) + "=";
    while (!options.empty()) {
        const std::string_view option = options.substr(0, options.find(','));
        if (option.starts_with(key)) return to_number(option.substr(key.size()), missing);
        options.remove_prefix(std::min(options.size(), option.size() + 1));
    }
    return missing;
}

}  // namespace warren::fuse
