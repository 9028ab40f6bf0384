// SPDX-License-Identifier: Apache-2.0
// A line of mountinfo: number, parent, major:minor, root, mount point, options, any number of
// optional fields, "-", type, source, options of the file system (proc_pid_mountinfo(5)).
#include "apps/fuse/mount_table.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/descriptor.hpp"

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

/// Removes and returns the text before the next `separator`, and removes that too.
std::string_view take(std::string_view& text, char separator) {
    const size_t length = std::min(text.size(), text.find(separator));
    const std::string_view taken = text.substr(0, length);
    text.remove_prefix(std::min(text.size(), length + 1));
    return taken;
}

MountedPlace parse_line(std::string_view line) {
    MountedPlace place;
    place.number = to_number(take(line, ' '), 0);
    place.parent = to_number(take(line, ' '), 0);
    place.device_major = to_number(take(line, ':'), 0);
    place.device_minor = to_number(take(line, ' '), 0);
    place.root = unescaped(take(line, ' '));
    if (place.root == "/") place.root.clear();
    place.mountpoint = unescaped(take(line, ' '));
    const std::string_view flags = take(line, ' ');
    place.read_only = flags == "ro" || flags.starts_with("ro,");
    while (!line.empty() && take(line, ' ') != "-") {
    }
    place.type = take(line, ' ');
    place.source = unescaped(take(line, ' '));
    place.options = take(line, ' ');
    return place;
}

/// The path within the file system of a path that lies on `mount`.
std::string path_within(const MountedPlace& mount, std::string_view path) {
    if (mount.mountpoint != "/") path.remove_prefix(std::min(path.size(), mount.mountpoint.size()));
    return mount.root + std::string(path);
}

/// The contents of a file in /proc, as far as they can be read. Throws std::bad_alloc, unlike a
/// stream of the standard library, which fails silently.
std::string read_all(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text;
    std::array<char, 4096> piece;
    while (file) {
        const ssize_t got = ::read(file.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        text.append(piece.data(), static_cast<size_t>(got));
    }
    return text;
}

}  // namespace

std::vector<MountedPlace> read_mount_table(u32 process) {
    std::vector<MountedPlace> places;
    const std::string whose = process == 0 ? "self" : std::to_string(process);
    const std::string table = read_all("/proc/" + whose + "/mountinfo");
    for (std::string_view rest = table; !rest.empty();)
        places.push_back(parse_line(take(rest, '\n')));
    return places;
}

std::optional<MountedPlace> top_mount_on(const std::string& path) {
    const std::vector<MountedPlace> table = read_mount_table();
    for (auto place = table.rbegin(); place != table.rend(); ++place) {
        if (place->mountpoint == path) return *place;
    }
    return std::nullopt;
}

u64 mount_of(int descriptor) {
    const std::string facts = read_all("/proc/self/fdinfo/" + std::to_string(descriptor));
    for (std::string_view rest = facts; !rest.empty();) {
        std::string_view line = take(rest, '\n');
        if (take(line, '\t') == "mnt_id:") return to_number(line, 0);
    }
    return 0;
}

u64 mount_at(const std::string& path) {
    const Descriptor shown(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    return shown ? mount_of(shown.get()) : 0;
}

bool is_covered(const MountedPlace& mounted) {
    const u64 there = mount_at(mounted.mountpoint);
    return there != 0 && mounted.number != 0 && there != mounted.number;
}

std::optional<bool> PeerMounts::find(u64 number, u32 process, std::vector<MountedPlace>& table) {
    if (table.empty()) table = read_mount_table(process);
    for (const MountedPlace& place : table) {
        if (place.number == number) return place.read_only;
    }
    return std::nullopt;
}

bool PeerMounts::is_read_only(int descriptor) {
    const u64 number = mount_of(descriptor);
    // The open descriptor keeps the mount ID from being reused; that holds too if another process
    // has the peer's pid by now.
    std::optional<bool> found = find(number, 0, ours_);
    if (!found && process_ != 0) found = find(number, process_, theirs_);
    return found.value_or(true);
}

bool is_mounted_below(const std::string& path, u64 mount) {
    const std::vector<MountedPlace> table = read_mount_table();
    const auto numbered = [&](u64 number) {
        return std::ranges::find(table, number, &MountedPlace::number);
    };
    const auto through = numbered(mount);
    if (through == table.end()) return false;
    const std::string wanted = path_within(*through, path);
    const std::string below = wanted.ends_with('/') ? wanted : wanted + "/";
    return std::ranges::any_of(table, [&](const MountedPlace& place) {
        const auto parent = numbered(place.parent);
        if (parent == table.end() || !parent->same_device(*through)) return false;
        const std::string point = path_within(*parent, place.mountpoint);
        return point == wanted || point.starts_with(below);
    });
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
