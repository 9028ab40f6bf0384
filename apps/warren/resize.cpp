// SPDX-License-Identifier: Apache-2.0
// warren resize: makes a volume that is not mounted larger.
#include <sys/stat.h>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/units.hpp"

namespace warren::cli {

namespace {

constexpr Option resize_options[] = {
    {'s', "size", "SIZE", "the new size, or +SIZE to grow by SIZE"},
};

constexpr Page resize_page = {
    .usage = "IMAGE SIZE\nIMAGE +SIZE\nDEVICE",
    .summary =
        "Make a volume that is not mounted larger. The file grows with it. Without SIZE, the "
        "volume grows to the size of the file or device.",
    .options = resize_options,
    .examples =
        "  warren resize v.img 4G\n"
        "  warren resize v.img +512M",
};

/// The present size of the volume; nullopt, after an error message, if it cannot be opened.
std::optional<u64> present_size(const std::string& image) {
    Session session;
    Volume* volume = session.open(image, Access::read);
    if (volume == nullptr) return {};
    const u64 size = volume->statistics().blocks * 4096;
    return session.close() ? std::optional<u64>(size) : std::nullopt;
}

int command_resize(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(resize_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (parsed.operands.empty()) return usage_error(resize_page, {"missing operand: which image?"});
    if (parsed.operands.size() > 2) {
        return usage_error(resize_page, {"extra operand ", quote(parsed.operands[2])});
    }
    const std::string& image = parsed.operands[0];
    const std::string* text = parsed.value('s');
    if (text == nullptr && parsed.operands.size() == 2) text = &parsed.operands[1];
    u64 size = 0;
    bool more = false;
    if (text != nullptr) {
        more = text->starts_with('+');
        const std::optional<u64> wanted = parse_size(std::string_view(*text).substr(more ? 1 : 0));
        if (!wanted || *wanted == 0) {
            return usage_error(
                resize_page, {"invalid size ", quote(*text), " (write for instance 4G or +512M)"});
        }
        size = *wanted;
    }
    if (const std::string point = mount_point_of_image(image); !point.empty()) {
        complain({quote(image), " is mounted at ", quote(point), " (unmount it first)"});
        return 1;
    }
    const std::optional<u64> before = present_size(image);
    if (!before) return 1;
    if (more && __builtin_add_overflow(*before, size, &size)) {
        complain({"cannot resize ", quote(image), ": ", reason(Errc::file_too_big)});
        return 1;
    }
    Failure failure;
    {
        const Progress progress("growing " + quote(image));
        failure = grow_volume(image, size);
    }
    if (failure.code != Errc::ok) {
        complain({failure.message});
        return 1;
    }
    const std::optional<u64> after = present_size(image);
    if (!after) return 1;
    print_line({quote(image), ": ", long_size(*before), " -> ", long_size(*after)});
    return 0;
}

}  // namespace

const Command resize_command = {"resize", "make a volume larger", resize_page, command_resize};

}  // namespace warren::cli
