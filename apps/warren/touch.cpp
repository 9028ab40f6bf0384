// SPDX-License-Identifier: Apache-2.0
// warren touch: makes empty files, or sets the times of existing ones to now.
#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "base/file_clock.hpp"

namespace warren::cli {

namespace {

constexpr Option touch_options[] = {
    {'a', nullptr, nullptr, "change only the access time"},
    {'c', "no-create", nullptr, "do not create files"},
    {'m', nullptr, nullptr, "change only the modification time"},
};

constexpr Page touch_page = {
    .usage = "[OPTION]... FILE...",
    .summary =
        "Make empty files, or set the times of existing ones to now: IMAGE:/path inside a volume "
        "that is not mounted, or a path of the host.",
    .options = touch_options,
    .examples = "  warren touch v.img:/ready",
    .see_also = "touch(1)",
    .opens_images = true,
};

bool touch(Directory& start, const Location& location, const Arguments& parsed) {
    AttributeChange change;
    change.new_accessed = now_nanoseconds();
    change.new_modified = change.new_accessed;
    if (!parsed.has('m') || parsed.has('a')) change.which |= AttributeChange::accessed;
    if (!parsed.has('a') || parsed.has('m')) change.which |= AttributeChange::modified;
    CreateOptions creation;
    creation.mode = 0100666;
    std::string path = location.path;
    std::string target;
    Errc code = Errc::ok;
    for (;;) {
        code = start.change(path, Follow::yes, change);
        if (code != Errc::no_entry) break;
        if (parsed.has('c')) return true;
        code = start.create(path, creation);
        if (code != Errc::exists || start.read_link(path, target) != Errc::ok) break;
        // A link to a file that does not exist: make that file. It ends, because change() follows
        // only so many links.
        const bool is_absolute = target.starts_with('/');
        path.resize(is_absolute ? 0 : path.size() - last_component(path).size());
        path += target;
    }
    if (code == Errc::ok) return true;
    complain({"cannot touch ", quote(location.text), ": ", reason(code), missing_hint(location)});
    return false;
}

int command_touch(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(touch_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (!need_operand(parsed)) return touch_page.usage_exit;
    Session session;
    bool good = true;
    for (const std::string& text : parsed.operands) {
        const Location location = parse_location(text);
        const std::shared_ptr<Directory> start = session.directory(location, Access::write);
        if (!start || !touch(*start, location, parsed)) good = false;
    }
    return session.close() && good ? 0 : 1;
}

}  // namespace

const Command touch_command = {"touch", "make empty files, set times", touch_page, command_touch};

}  // namespace warren::cli
