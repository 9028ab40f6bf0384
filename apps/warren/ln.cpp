// SPDX-License-Identifier: Apache-2.0
// warren ln: makes hard links and symbolic links.
#include <sys/stat.h>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

constexpr Option ln_options[] = {
    {'f', "force", nullptr, "replace an existing file"},
    {'s', "symbolic", nullptr, "make symbolic links instead of hard links"},
    {'T', "no-target-directory", nullptr,
     "treat NAME as the name of the link, even if it is a directory"},
    {'v', "verbose", nullptr, "print each link"},
};

constexpr Page ln_page = {
    .usage = "[OPTION]... TARGET NAME\n[OPTION]... TARGET... DIRECTORY",
    .summary =
        "Make links in a volume that is not mounted (IMAGE:/path), or among the host's files. "
        "The TARGET of a symbolic link is stored as given.",
    .options = ln_options,
    .examples =
        "  warren ln v.img:/a v.img:/b             a second name for the file\n"
        "  warren ln -s ../shared v.img:/home/s    a symbolic link",
    .see_also = "ln(1)",
    .opens_images = true,
};

/// Makes one link; `name` is the full path of the new name.
bool make_link(Directory& start, const Arguments& parsed, const std::string& target,
               const Location& where, const std::string& name) {
    const bool symbolic = parsed.has('s');
    const Location existing = parse_location(target);
    auto attempt = [&] {
        if (!symbolic) return start.link(existing.path, name);
        CreateOptions creation;
        creation.mode = S_IFLNK | 0777;
        creation.target = target;
        return start.create(name, creation);
    };
    Errc code = Errc::ok;
    if (!symbolic && existing.image != where.image) {
        code = Errc::cross_device;
    } else {
        const Result<Facts> source = start.stat(existing.path, Follow::no);
        if (!symbolic && !source) {
            complain({"failed to access ", quote(target), ": ", reason(source.code()),
                      missing_hint(existing)});
            return false;
        }
        if (!symbolic && source->is_directory()) {
            complain({quote(target), ": hard link not allowed for directory"});
            return false;
        }
        code = attempt();
        const Result<Facts> there = start.stat(name, Follow::no);
        const bool same = there && source && there->is_same(*source) &&
                          (!symbolic || is_same_name(start, existing.path, name));
        if (code == Errc::exists && parsed.has('f') && same && symbolic) {
            complain({quote(target), " and ", quote(where.prefix() + name), " are the same file"});
            return false;
        }
        if (code == Errc::exists && parsed.has('f') && !same) {
            code = start.remove(name);
            if (code == Errc::ok) code = attempt();
        }
    }
    const std::string shown = where.prefix() + name;
    if (code == Errc::ok) {
        if (parsed.has('v')) {
            print_line({quote(shown), symbolic ? " -> " : " => ", quote(target)});
        }
        return true;
    }
    const std::string_view kind = symbolic ? "symbolic" : "hard";
    complain({"failed to create ", kind, " link ", quote(shown), ": ", reason(code)});
    return false;
}

int command_ln(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(ln_page, arguments);
    if (parsed.done) return parsed.exit_code;
    const size_t count = parsed.operands.size();
    if (count == 0) return usage_error(ln_page, {"missing file operand"});
    if (count == 1) {
        return usage_error(ln_page,
                           {"missing destination file operand after ", quote(parsed.operands[0])});
    }
    if (parsed.has('T') && count > 2) {
        return usage_error(ln_page, {"extra operand ", quote(parsed.operands[2])});
    }
    const Location where = parse_location(parsed.operands.back());
    Session session;
    const std::shared_ptr<Directory> start = session.directory(where, Access::write);
    if (!start) return 1;
    const Result<Facts> facts = start->stat(where.path, Follow::yes);
    const bool into = !parsed.has('T') && facts && facts->is_directory();
    if (count > 2 && !into) {
        complain({"target ", quote(where.text), ": ",
                  reason(facts ? Errc::not_directory : facts.code()), missing_hint(where)});
        return 1;
    }
    bool good = true;
    for (size_t index = 0; index + 1 < count; ++index) {
        const std::string& target = parsed.operands[index];
        const std::string name = into ? joined(where.path, last_component(target)) : where.path;
        if (!make_link(*start, parsed, target, where, name)) good = false;
    }
    return session.close() && good ? 0 : 1;
}

}  // namespace

const Command ln_command = {"ln", "make links", ln_page, command_ln};

}  // namespace warren::cli
