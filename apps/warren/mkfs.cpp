// SPDX-License-Identifier: Apache-2.0
// warren mkfs: makes an empty volume in a file or on a block device. Called as mkfs.warren it
// behaves as mkfs(8) expects.
#include <sys/stat.h>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/units.hpp"
#include "base/last_error.hpp"

namespace warren::cli {

namespace {

constexpr size_t label_length_max = 31;

enum : int { dedup_option = 400 };

constexpr Option mkfs_options[] = {
    {dedup_option, "dedup", nullptr,
     "deduplicate data when they are written, like the mount option dedup"},
    {'f', "force", nullptr, "overwrite an existing file system"},
    {'F', nullptr, nullptr, nullptr},
    {'L', "label", "LABEL", "the volume's label, up to 31 bytes"},
    {'n', "dry-run", nullptr, "print what would be done, change nothing"},
    {'q', "quiet", nullptr, "print nothing"},
    {'s', "size", "SIZE",
     "the volume's size: 512M, 2G, 1T (default: the size of the existing file or device). A "
     "missing file is created"},
    {'v', "verbose", nullptr, nullptr},
    {'V', nullptr, nullptr, nullptr},
    {'t', "type", "TYPE", nullptr},
};

constexpr Page mkfs_page = {
    .usage = "[OPTION]... IMAGE [SIZE]",
    .summary = "Make an empty Warren volume in a file or on a block device.",
    .options = mkfs_options,
    .notes =
        "A file takes only as much space as is written into the volume. A new file is "
        "accessible to its owner only (0600): a user who may read an image can lock it, and "
        "see everything in it.",
    .examples =
        "  warren mkfs v.img --size 2G\n"
        "  warren mkfs --label scratch --force /dev/sdb1",
    .see_also = "mkfs(8)",
};

/// The size of the volume; nullopt, after an error message, if it is invalid.
std::optional<u64> wanted_size(const Arguments& parsed) {
    const std::string* text = parsed.value('s');
    if (text == nullptr && parsed.operands.size() > 1) text = &parsed.operands[1];
    if (text != nullptr) {
        const std::optional<u64> size = parse_size(*text);
        if (size && *size > 0) return size;
        usage_error(mkfs_page, {"invalid size ", quote(*text), " (write for instance 512M or 2G)"});
        return {};
    }
    struct stat found {};
    const std::string& image = parsed.operands[0];
    if (::stat(image.c_str(), &found) != 0) {
        const Errc code = last_error();
        const std::string hint = code == Errc::no_entry ? " (say --size 2G to make it)" : "";
        complain({"cannot make a volume in ", quote(image), ": ", reason(code), hint});
        return {};
    }
    if (S_ISREG(found.st_mode) && found.st_size == 0) {
        complain({"cannot make a volume in ", quote(image),
                  ": the file is empty (say how large it is to be: --size 2G)"});
        return {};
    }
    return 0;
}

/// Prints what was made, as read back from the volume.
bool describe(const std::string& image) {
    Session session;
    Volume* volume = session.open(image, Access::read);
    if (volume == nullptr) return false;
    const std::string label = volume->label().empty() ? "" : ", label " + quote(volume->label());
    print_line({quote(image), ": Warren volume of ", long_size(volume->statistics().blocks * 4096),
                label, ", UUID ", volume->uuid()});
    return session.close();
}

int command_mkfs(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(mkfs_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (parsed.operands.empty()) return usage_error(mkfs_page, {"missing operand: which image?"});
    if (parsed.operands.size() > 2) {
        return usage_error(mkfs_page, {"extra operand ", quote(parsed.operands[2])});
    }
    const std::string& image = parsed.operands[0];
    FormatOptions format;
    format.dedup = parsed.has(dedup_option);
    format.force = parsed.has('f') || parsed.has('F');
    if (const std::string* label = parsed.value('L')) {
        if (label->size() > label_length_max) {
            return usage_error(mkfs_page,
                               {"the label ", quote(*label), " is longer than 31 bytes"});
        }
        format.label = *label;
    }
    const std::optional<u64> size = wanted_size(parsed);
    if (!size) return mkfs_page.usage_exit;
    format.size_bytes = *size;
    if (const std::string point = mount_point_of_image(image); !point.empty()) {
        complain({quote(image), " is mounted at ", quote(point), " (unmount it first)"});
        return 1;
    }
    if (parsed.has('n')) {
        const std::string how_large = *size == 0 ? "its own size" : long_size(*size);
        print_line({"would make a volume of ", how_large, " in ", quote(image)});
        return 0;
    }
    const Failure failure = make_volume(image, format);
    if (failure.code != Errc::ok) {
        complain({failure.message});
        return 1;
    }
    warn_of_exposure(image);
    return parsed.has('q') || describe(image) ? 0 : 1;
}

}  // namespace

const Command mkfs_command = {"mkfs",    "make an empty volume in a file or on a device",
                              mkfs_page, command_mkfs,
                              false,     {"mkfs.warren"}};

}  // namespace warren::cli
