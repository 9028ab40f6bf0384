// SPDX-License-Identifier: Apache-2.0
// Options behind -o. Those that only mount(8) and its friends read are accepted and ignored, so
// that a line of fstab works as it is for other file systems; an unknown one is an error, not a
// surprise.
#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "apps/fuse/mount.hpp"

namespace warren::fuse {

namespace {

// The smallest that a volume works with.
constexpr u64 meta_buffer_min_bytes = 1 * mib;
constexpr u64 file_buffer_min_bytes = 256 * kib;

/// Options that are passed to the kernel, and what each replaces.
struct FlagPair {
    std::string_view name;
    std::string_view opposite;
};
constexpr std::array<FlagPair, 11> kernel_flags{{{"dev", "nodev"},
                                                 {"nodev", "dev"},
                                                 {"suid", "nosuid"},
                                                 {"nosuid", "suid"},
                                                 {"exec", "noexec"},
                                                 {"noexec", "exec"},
                                                 {"sync", "async"},
                                                 {"async", "sync"},
                                                 {"dirsync", ""},
                                                 {"nodiratime", "diratime"},
                                                 {"diratime", "nodiratime"}}};

constexpr std::array<std::string_view, 21> ignored{"defaults",
                                                   "auto",
                                                   "noauto",
                                                   "nouser",
                                                   "nousers",
                                                   "_netdev",
                                                   "nofail",
                                                   "loop",
                                                   "group",
                                                   "quiet",
                                                   "silent",
                                                   "loud",
                                                   "norelatime",
                                                   "nostrictatime",
                                                   "lazytime",
                                                   "nolazytime",
                                                   "iversion",
                                                   "noiversion",
                                                   "default_permissions",
                                                   "big_writes",
                                                   "mand"};

/// The last ones are what the kernel shows of a FUSE mount: mount(8) repeats them at a remount.
constexpr std::array<std::string_view, 10> ignored_beginnings{
    "x-",    "X-",       "comment=",  "uhelper=",  "helper=",
    "user=", "user_id=", "group_id=", "max_read=", "blksize="};

void set_flag(MountOptions& options, std::string_view name, std::string_view opposite) {
    std::erase_if(options.flags,
                  [&](const std::string& flag) { return flag == name || flag == opposite; });
    options.flags.emplace_back(name);
}

/// What mount(8) means by an option that lets users mount.
void restrict_as_user(MountOptions& options) {
    set_flag(options, "nodev", "dev");
    set_flag(options, "nosuid", "suid");
    set_flag(options, "noexec", "exec");
}

bool take_access_times(std::string_view option, MountOptions& options) {
    if (option == "noatime") {
        options.access_times = AccessTimes::never;
    } else if (option == "strictatime") {
        options.access_times = AccessTimes::always;
    } else if (option == "relatime" || option == "atime") {
        options.access_times = AccessTimes::relative;
    } else {
        return false;
    }
    return true;
}

bool take_switch(std::string_view option, MountOptions& options) {
    if (option == "ro" || option == "rw") {
        options.read_only = option == "ro";
        options.writable = option == "rw";
    } else if (option == "remount") {
        options.remount = true;
    } else if (option == "allow_other") {
        options.allow_other = true;
    } else if (option == "noallow_other") {
        options.allow_other = false;
    } else if (option == "user" || option == "users" || option == "owner") {
        restrict_as_user(options);
    } else {
        return take_access_times(option, options);
    }
    return true;
}

bool take_kernel_flag(std::string_view option, MountOptions& options) {
    for (const FlagPair& flag : kernel_flags) {
        if (flag.name == option) return set_flag(options, flag.name, flag.opposite), true;
    }
    return false;
}

bool is_ignored(std::string_view option) {
    return option.empty() || std::ranges::find(ignored, option) != ignored.end() ||
           std::ranges::any_of(ignored_beginnings, [&](std::string_view beginning) {
               return option.starts_with(beginning);
           });
}

/// "name=number"; false, and `error`, if it is not that.
bool take_number(std::string_view option, std::string_view name, u32& number, std::string& error) {
    const std::string_view text = option.substr(name.size());
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, number);
    if (code == std::errc() && stop == end && !text.empty()) return true;
    error = "'" + std::string(option) + "': a whole number must follow the '='";
    return false;
}

/// "name=size", in bytes or with K, M or G behind it; false, and `error`, if it is not that or less
/// than `least` and not 0.
bool take_size(std::string_view option, u64 least, u64& size, std::string& error) {
    const std::string_view text = option.substr(option.find('=') + 1);
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, size);
    constexpr std::string_view units = "KMG";
    const bool has_unit = stop != end && units.find(*stop) != std::string_view::npos;
    const u32 shift = has_unit ? static_cast<u32>(units.find(*stop) + 1) * 10 : 0;
    if (code != std::errc() || stop + (has_unit ? 1 : 0) != end || size > ~u64{0} >> shift) {
        error = "'" + std::string(option) + "': a size must follow the '=', as 64M or 2G";
        return false;
    }
    size <<= shift;
    if (size == 0 || size >= least) return true;
    error = "'" + std::string(option) + "': at least " + std::to_string(least / kib) +
            "K are needed, or 0 for none";
    return false;
}

/// An option whose value is one of a few names.
bool take_choice(std::string_view option, MountOptions& options, bool& is_known,
                 std::string& error) {
    const std::string_view name = option.substr(0, option.find('='));
    const std::string_view value = option.substr(std::min(option.size(), name.size() + 1));
    std::string_view what;
    is_known = true;
    if (name == "engine") {
        if (find_engine(value, options.engine)) return true;
        what = "engine: it is auto, cpu or cuda";
    } else if (name == "disk") {
        if (find_disk_access(value, options.disk)) return true;
        what = "way to a disk: it is auto, plain, ring or direct";
    } else if (name == "data") {
        if (find_data_mode(value, options.data)) return true;
        what = "mode: it is ordered, journal or writeback";
    } else if (name == "errors") {
        if (find_error_mode(value, options.errors)) return true;
        what = "way to go on: it is remount-ro or continue";
    } else {
        is_known = false;
        return false;
    }
    error = "'" + std::string(option) + "': there is no such " + std::string(what);
    return false;
}

bool take_option(std::string_view option, MountOptions& options, std::string& error) {
    if (take_switch(option, options) || take_kernel_flag(option, options)) return true;
    if (is_ignored(option)) return true;
    if (option.starts_with("commit=")) {
        return take_number(option, "commit=", options.commit_seconds, error);
    }
    if (option.starts_with("threads=")) {
        return take_number(option, "threads=", options.threads, error);
    }
    if (option.starts_with("meta_buffer=")) {
        return take_size(option, meta_buffer_min_bytes, options.meta_buffer_bytes, error);
    }
    if (option.starts_with("file_buffer=")) {
        return take_size(option, file_buffer_min_bytes, options.file_buffer_bytes, error);
    }
    bool is_known = false;
    const bool is_taken = take_choice(option, options, is_known, error);
    if (is_known) return is_taken;
    error = "unknown mount option '" + std::string(option) + "'";
    return false;
}

}  // namespace

bool add_mount_options(const std::string& text, MountOptions& options, std::string& error) {
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::string_view option = rest.substr(0, rest.find(','));
        if (!take_option(option, options, error)) return false;
        rest.remove_prefix(std::min(rest.size(), option.size() + 1));
    }
    return true;
}

}  // namespace warren::fuse
