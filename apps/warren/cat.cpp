// SPDX-License-Identifier: Apache-2.0
// warren cat: writes the contents of files to standard output.
#include <unistd.h>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "base/whole_io.hpp"

namespace warren::cli {

namespace {

constexpr size_t cat_buffer_size = 1 << 20;

constexpr Option cat_options[] = {
    {'u', nullptr, nullptr, nullptr},
};

constexpr Page cat_page = {
    .usage = "FILE...",
    .summary =
        "Print the contents of files on standard output: IMAGE:/path inside a volume that is "
        "not mounted, or a path of the host.",
    .options = cat_options,
    .examples =
        "  warren cat v.img:/etc/hosts\n"
        "  warren cat v.img:/backup.tar | tar t",
    .see_also = "cat(1)",
    .opens_images = true,
};

enum class Outcome : u8 { good, bad_source, bad_output };

Outcome copy_out(Directory& start, const Location& location, std::vector<std::byte>& buffer) {
    std::unique_ptr<OpenFile> file;
    const Result<Facts> facts = start.stat(location.path, Follow::yes);
    Errc code = facts.code();
    if (facts && facts->is_directory()) code = Errc::is_directory;
    if (code == Errc::ok) {
        code = start.open_file(location.path, Follow::yes, Access::read, file);
    }
    for (u64 offset = 0; code == Errc::ok;) {
        const Result<u64> got = file->read(offset, buffer);
        if (got && *got == 0) return Outcome::good;
        code = got.code();
        if (code != Errc::ok) break;
        const Errc out = write_fully(STDOUT_FILENO, std::span(buffer).first(*got));
        if (out != Errc::ok) {
            complain({"cannot write to standard output: ", reason(out)});
            return Outcome::bad_output;
        }
        offset += *got;
    }
    complain({quote_if_needed(location.text), ": ", reason(code), missing_hint(location)});
    return Outcome::bad_source;
}

int command_cat(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(cat_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (!need_operand(parsed)) return cat_page.usage_exit;
    Session session;
    std::vector<std::byte> buffer(cat_buffer_size);
    bool good = true;
    for (const std::string& text : parsed.operands) {
        const Location location = parse_location(text);
        const std::shared_ptr<Directory> start = session.directory(location, Access::read);
        const Outcome outcome = start ? copy_out(*start, location, buffer) : Outcome::bad_source;
        if (outcome != Outcome::good) good = false;
        if (outcome == Outcome::bad_output) break;
    }
    return session.close() && good ? 0 : 1;
}

}  // namespace

const Command cat_command = {"cat", "print the contents of files", cat_page, command_cat};

}  // namespace warren::cli
