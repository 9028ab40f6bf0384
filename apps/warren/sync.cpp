// SPDX-License-Identifier: Apache-2.0
// warren sync: makes everything that was written to volumes durable.
#include <sys/stat.h>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/progress.hpp"

namespace warren::cli {

namespace {

constexpr Page page = {
    .usage = "IMAGE|PATH...",
    .summary =
        "Make everything that was written to a volume durable: a path on a mounted volume, "
        "or an\nimage, whose journal is replayed if it was not closed cleanly.",
    .examples = "  warren sync /mnt/w",
    .opens_images = true,
};

bool sync_mount(const std::string& path) {
    const std::string attempt = "cannot sync " + quote(path);
    auto connection = connect_for(path, attempt, "sync(1)");
    if (!connection) return false;
    Errc code = Errc::ok;
    {
        const Progress progress("syncing " + quote(path));
        code = connection->sync();
    }
    if (code != Errc::ok) complain({attempt, ": ", reason(code)});
    return code == Errc::ok;
}

bool sync_operand(const std::string& text) {
    const Location location = parse_location(text);
    std::string image = location.image;
    if (image.empty() && !is_on_warren_mount(text) && looks_like_volume(text)) image = text;
    if (image.empty()) return sync_mount(text);
    if (const std::string point = mount_point_of_image(image); !point.empty()) {
        return sync_mount(point);
    }
    Session session;
    return session.open(image, Access::write) != nullptr && session.close();
}

}  // namespace

int command_sync(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (!need_operand(parsed)) return page.usage_exit;
    bool good = true;
    for (const std::string& text : parsed.operands) {
        if (!sync_operand(text)) good = false;
    }
    return good ? 0 : 1;
}

}  // namespace warren::cli
