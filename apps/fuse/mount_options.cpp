// SPDX-License-Identifier: Apache-2.0
// The options of -o. Options that only mount(8) and related programs interpret are accepted and
// ignored, so that a line of fstab works as for other file systems; an unknown option is an error.
#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "apps/fuse/mount.hpp"

namespace warren::fuse {

namespace {

// The smallest sizes that a volume works with.
constexpr u64 meta_buffer_min_bytes = 1 * mib;
constexpr u64 dedup_index_min_bytes = 64 * kib;
constexpr u64 file_buffer_min_bytes = 256 * kib;
constexpr u64 device_memory_min_bytes = 512 * mib;  // one scan takes some 400

void set_flag(MountOptions& options, std::string_view name, std::string_view opposite) {
    std::erase_if(options.flags,
                  [&](const std::string& flag) { return flag == name || flag == opposite; });
    options.flags.emplace_back(name);
}

std::string_view value_of(std::string_view option) {
    return option.substr(option.find('=') + 1);
}

/// Applies one option, as it was written. Returns false, with `error`, if it is invalid.
using Take = bool (*)(MountOptions& options, std::string_view option, std::string& error);

bool ignore(MountOptions&, std::string_view, std::string&) {
    return true;
}

bool take_switch(MountOptions& options, std::string_view option, std::string&) {
    if (option == "remount") {
        options.remount = true;
    } else if (option == "allow_other" || option == "noallow_other") {
        options.allow_other = option == "allow_other";
    } else {
        options.read_only = option == "ro";
        options.writable = option == "rw";
    }
    return true;
}

bool take_access_times(MountOptions& options, std::string_view option, std::string&) {
    options.access_times = option == "noatime"       ? AccessTimes::never
                           : option == "strictatime" ? AccessTimes::always
                                                     : AccessTimes::relative;
    return true;
}

/// NAME or noNAME, which is passed to the kernel and replaces its opposite.
bool take_kernel_flag(MountOptions& options, std::string_view option, std::string&) {
    const bool is_negative = option.starts_with("no");
    set_flag(options, option, is_negative ? option.substr(2) : "no" + std::string(option));
    return true;
}

bool take_sync(MountOptions& options, std::string_view option, std::string&) {
    set_flag(options, option, option == "sync" ? "async" : "sync");
    return true;
}

/// The flags that mount(8) implies for an option that lets users mount.
bool restrict_as_user(MountOptions& options, std::string_view, std::string& error) {
    for (const std::string_view flag : {"nodev", "nosuid", "noexec"})
        take_kernel_flag(options, flag, error);
    return true;
}

/// NAME=NUMBER, for the field of that number.
template <auto field>
bool take_number(MountOptions& options, std::string_view option, std::string& error) {
    const std::string_view text = value_of(option);
    const char* end = text.data() + text.size();
    u32 number = 0;
    const auto [stop, code] = std::from_chars(text.data(), end, number);
    if (code != std::errc() || stop != end) {
        error = "'" + std::string(option) + "': a whole number must follow the '='";
        return false;
    }
    options.*field = number;
    return true;
}

/// NAME=SIZE, in bytes or with the suffix K, M or G, for the field of that size: 0, or at least
/// `least`.
template <auto field, u64 least>
bool take_size(MountOptions& options, std::string_view option, std::string& error) {
    const std::string_view text = value_of(option);
    const char* end = text.data() + text.size();
    u64& size = options.*field;
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

/// The error for "name=value" with a value that is not among `choices`.
bool refuse(std::string_view option, std::string_view what, Choices choices, std::string& error) {
    error = "'" + std::string(option) + "': there is no such " + std::string(what) + ": it is " +
            listed(choices());
    return false;
}

bool take_engine(MountOptions& options, std::string_view option, std::string& error) {
    return find_engine(value_of(option), options.engine) ||
           refuse(option, "engine", names_of<engine_names>, error);
}

bool take_disk(MountOptions& options, std::string_view option, std::string& error) {
    return find_disk_access(value_of(option), options.disk) ||
           refuse(option, "way to a disk", names_of<disk_access_names>, error);
}

bool take_data(MountOptions& options, std::string_view option, std::string& error) {
    return find_data_mode(value_of(option), options.data) ||
           refuse(option, "mode", names_of<data_mode_names>, error);
}

bool take_errors(MountOptions& options, std::string_view option, std::string& error) {
    return find_error_mode(value_of(option), options.errors) ||
           refuse(option, "way to go on", names_of<error_mode_names>, error);
}

bool take_dedup(MountOptions& options, std::string_view option, std::string&) {
    options.dedup = option == "dedup" ? Dedup::on : Dedup::off;
    return true;
}

struct Entry {
    OptionWord word;
    Take take = ignore;
};

/// A name that ends with '=' takes a value; one that ends with '*' is a prefix of accepted words.
constexpr Entry entries[] = {
    {{"ro", nullptr, "mount read-only"}, take_switch},
    {{"rw", nullptr, "mount writable, or fail"}, take_switch},
    {{"remount", nullptr, "change the options of a mount"}, take_switch},
    {{"noatime", nullptr, "do not record access times"}, take_access_times},
    {{"relatime", nullptr, "record the first access after each change, and one a day (default)"},
     take_access_times},
    {{"strictatime", nullptr, "record every access"}, take_access_times},
    {{"atime", nullptr, "the same as relatime"}, take_access_times},
    {{"nodiratime", nullptr, "do not record access times of directories"}, take_kernel_flag},
    {{"diratime", nullptr, "record access times of directories (default)"}, take_kernel_flag},
    {{"nodev", nullptr, "device files cannot be opened"}, take_kernel_flag},
    {{"dev", nullptr, "device files can be opened"}, take_kernel_flag},
    {{"nosuid", nullptr, "set-user-ID, set-group-ID and file capabilities have no effect"},
     take_kernel_flag},
    {{"suid", nullptr, "set-user-ID, set-group-ID and file capabilities have effect"},
     take_kernel_flag},
    {{"noexec", nullptr, "programs cannot be run"}, take_kernel_flag},
    {{"exec", nullptr, "programs can be run"}, take_kernel_flag},
    {{"sync", nullptr, "each change is durable when its system call returns"}, take_sync},
    {{"async", nullptr, "changes become durable later (default)"}, take_sync},
    {{"dirsync", nullptr, "each change of a directory is durable when its system call returns"},
     take_kernel_flag},
    {{"allow_other", nullptr, "other users may use the mount (default for root)"}, take_switch},
    {{"noallow_other", nullptr, "only the user that mounts may use the mount"}, take_switch},
    {{"user", nullptr, "the same as nodev,nosuid,noexec; mount(8) lets any user mount"},
     restrict_as_user},
    {{"users", nullptr, "the same as user, and any user may unmount"}, restrict_as_user},
    {{"owner", nullptr, "the same as user, but only for the owner of the device"},
     restrict_as_user},
    {{"commit=", "SECONDS",
      "interval at which changes are made durable (default: 5; 0: only on request)"},
     take_number<&MountOptions::commit_seconds>},
    {{"threads=", "NUMBER",
      "maximum threads that serve requests (default: by the number of cores)"},
     take_number<&MountOptions::threads>},
    {{"engine=", nullptr, "engine that runs operations (default: $WARREN_ENGINE, else auto)",
      names_of<engine_names>},
     take_engine},
    {{"disk=", nullptr, "how the image is read and written (default: auto)",
      names_of<disk_access_names>},
     take_disk},
    {{"data=", nullptr, "what a power cut may do to contents (default: ordered)",
      names_of<data_mode_names>},
     take_data},
    {{"errors=", nullptr, "what to do after the disk has refused a write (default: remount-ro)",
      names_of<error_mode_names>},
     take_errors},
    {{"meta_buffer=", "SIZE", "memory for metadata, at least 1M (default: 0, all metadata)"},
     take_size<&MountOptions::meta_buffer_bytes, meta_buffer_min_bytes>},
    {{"file_buffer=", "SIZE", "memory for file contents, at least 256K (default: 0, none)"},
     take_size<&MountOptions::file_buffer_bytes, file_buffer_min_bytes>},
    {{"device=", "NUMBER", "the number of the GPU, if one is used (default: 0)"},
     take_number<&MountOptions::device>},
    {{"device_memory=", "SIZE",
      "with engine=auto: take this much memory of the GPU at once, for a copy of the metadata and "
      "for what reads it, at least 512M (default: 0, a quarter of what is free once there is work "
      "for it)"},
     take_size<&MountOptions::device_memory_bytes, device_memory_min_bytes>},
    {{"dedup", nullptr, "share blocks when data are written that the volume already has"},
     take_dedup},
    {{"nodedup", nullptr,
      "do not share them (default, unless `warren mkfs --dedup` made the volume)"},
     take_dedup},
    {{"dedup_index=", "SIZE",
      "memory for digests of blocks, at least 64K (default: 1/1024 of the volume, at most "
      "1/8 of the memory)"},
     take_size<&MountOptions::dedup_index_bytes, dedup_index_min_bytes>},
    {{"dedup_fill=", "SIZE",
      "bytes per second to read after mounting, to compute digests of what the volume holds "
      "(default: 128M; 0: none)"},
     take_size<&MountOptions::dedup_fill_bytes, kib>},
    {{"defaults", nullptr, nullptr}},
    {{"auto", nullptr, nullptr}},
    {{"noauto", nullptr, nullptr}},
    {{"nouser", nullptr, nullptr}},
    {{"nousers", nullptr, nullptr}},
    {{"_netdev", nullptr, nullptr}},
    {{"nofail", nullptr, nullptr}},
    {{"loop", nullptr, nullptr}},
    {{"group", nullptr, nullptr}},
    {{"quiet", nullptr, nullptr}},
    {{"silent", nullptr, nullptr}},
    {{"loud", nullptr, nullptr}},
    {{"norelatime", nullptr, nullptr}},
    {{"nostrictatime", nullptr, nullptr}},
    {{"lazytime", nullptr, nullptr}},
    {{"nolazytime", nullptr, nullptr}},
    {{"iversion", nullptr, nullptr}},
    {{"noiversion", nullptr, nullptr}},
    {{"default_permissions", nullptr, nullptr}},
    {{"big_writes", nullptr, nullptr}},
    {{"mand", nullptr, nullptr}},
    {{"x-*", nullptr, nullptr}},
    {{"X-*", nullptr, nullptr}},
    {{"comment=", "TEXT", nullptr}},
    {{"uhelper=", "NAME", nullptr}},
    {{"helper=", "NAME", nullptr}},
    {{"user=", "NAME", nullptr}},
    // Options that the kernel reports for a FUSE mount, and that mount(8) passes again at a
    // remount.
    {{"user_id=", "NUMBER", nullptr}},
    {{"group_id=", "NUMBER", nullptr}},
    {{"max_read=", "BYTES", nullptr}},
    {{"blksize=", "BYTES", nullptr}},
};

bool is_called(std::string_view option, std::string_view name) {
    if (name.ends_with('=')) return option.starts_with(name);
    if (name.ends_with('*')) return option.starts_with(name.substr(0, name.size() - 1));
    return option == name;
}

bool take_option(std::string_view option, MountOptions& options, std::string& error) {
    const auto entry = std::ranges::find_if(
        entries, [&](const Entry& one) { return is_called(option, one.word.name); });
    if (entry != std::end(entries)) return entry->take(options, option, error);
    error = "unknown mount option '" + std::string(option) + "'";
    return false;
}

}  // namespace

std::vector<OptionWord> mount_option_words() {
    std::vector<OptionWord> words;
    for (const Entry& entry : entries)
        words.push_back(entry.word);
    return words;
}

bool add_mount_options(const std::string& text, MountOptions& options, std::string& error) {
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::string_view option = rest.substr(0, rest.find(','));
        if (!option.empty() && !take_option(option, options, error)) return false;
        rest.remove_prefix(std::min(rest.size(), option.size() + 1));
    }
    const auto refuse = [&](const char* option) {
        error = "'" + std::string(option) +
                "' does not go with engine=" + std::string(name_of(options.engine));
        return false;
    };
    const bool is_automatic = options.engine == EngineChoice::automatic;
    if (!is_automatic && options.device_memory_bytes != 0) return refuse("device_memory=");
    if (options.engine == EngineChoice::cpu && options.device) return refuse("device=");
    return true;
}

}  // namespace warren::fuse
