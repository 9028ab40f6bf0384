// SPDX-License-Identifier: Apache-2.0
// warren mkdir: makes directories and, if requested, missing parents.
#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

constexpr Option mkdir_options[] = {
    {'m', "mode", "MODE", "permission bits in octal (default: 777 less the umask)"},
    {'p', "parents", nullptr, "make missing parents; an existing directory is no error"},
    {'v', "verbose", nullptr, "print each directory that is made"},
};

constexpr Page mkdir_page = {
    .usage = "[OPTION]... DIRECTORY...",
    .summary =
        "Make directories: IMAGE:/path inside a volume that is not mounted, or a path of the host.",
    .options = mkdir_options,
    .examples = "  warren mkdir -p v.img:/projects/warren",
    .see_also = "mkdir(1)",
    .opens_images = true,
};

struct MkdirOptions {
    bool parents = false;
    bool verbose = false;
    bool has_mode = false;
    u32 mode = 0777;
};

bool make_one(Directory& start, const Location& location, const std::string& path,
              const MkdirOptions& how, bool last) {
    CreateOptions creation;
    creation.mode = 0040000 | (last ? how.mode : 0777);
    const std::string shown = location.prefix() + path;
    Errc code = start.create(path, creation);
    if (code == Errc::exists && how.parents) {
        const Result<Facts> facts = start.stat(path, Follow::yes);
        if (facts && facts->is_directory()) return true;
        if (facts && !last) code = Errc::not_directory;
    } else if (code == Errc::ok) {
        if (how.verbose) print_line({program(), ": created directory ", quote(shown)});
        if (last && how.has_mode) {
            AttributeChange change;
            change.which = AttributeChange::mode;
            change.new_mode = how.mode;
            code = start.change(path, Follow::no, change);
        }
        if (code == Errc::ok) return true;
    }
    complain(
        {"cannot create directory ", quote(shown), ": ", reason(code), missing_hint(location)});
    return false;
}

bool make_path(Directory& start, const Location& location, const MkdirOptions& how) {
    const std::string& path = location.path;
    size_t end = path.find_last_not_of('/');
    end = end == std::string::npos ? path.size() : end + 1;
    if (how.parents) {
        for (size_t slash = path.find('/', 1); slash < end; slash = path.find('/', slash + 1)) {
            if (path[slash - 1] == '/') continue;
            if (!make_one(start, location, path.substr(0, slash), how, false)) return false;
        }
    }
    return make_one(start, location, path.substr(0, end), how, true);
}

int command_mkdir(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(mkdir_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (!need_operand(parsed)) return mkdir_page.usage_exit;
    MkdirOptions how;
    how.parents = parsed.has('p');
    how.verbose = parsed.has('v');
    if (const std::string* text = parsed.value('m')) {
        char* end = nullptr;
        const unsigned long mode = std::strtoul(text->c_str(), &end, 8);
        if (text->empty() || *end != '\0' || mode > 07777) {
            return usage_error(mkdir_page, {"invalid mode ", quote(*text), " (write it in octal)"});
        }
        how.mode = static_cast<u32>(mode);
        how.has_mode = true;
    }
    Session session;
    bool good = true;
    for (const std::string& text : parsed.operands) {
        const Location location = parse_location(text);
        const std::shared_ptr<Directory> start = session.directory(location, Access::write);
        if (!start || !make_path(*start, location, how)) good = false;
    }
    return session.close() && good ? 0 : 1;
}

}  // namespace

const Command mkdir_command = {"mkdir", "make directories", mkdir_page, command_mkdir};

}  // namespace warren::cli
