// SPDX-License-Identifier: Apache-2.0
// The program `warren`: selects the command by the first argument, or by the name under which the
// program was called (mkfs.warren, fsck.warren, mount.warren and, since that is the type mount(8)
// uses for a FUSE mount, mount.fuse.warren), and runs it.
//
// Invariant: exit code 2 of the program itself means an unknown command; when the program exits
// successfully, all its output on stdout has been written.
#include <warren/version.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/help_page.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/manual.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"

namespace warren::cli {

namespace {

/// The Levenshtein distance: how many letters must be changed, added or removed to turn one word
/// into the other.
size_t distance(std::string_view left, std::string_view right) {
    std::vector<size_t> row(right.size() + 1);
    for (size_t column = 0; column < row.size(); ++column)
        row[column] = column;
    for (size_t line = 1; line <= left.size(); ++line) {
        size_t diagonal = row[0];
        row[0] = line;
        for (size_t column = 1; column < row.size(); ++column) {
            const size_t changed = diagonal + (left[line - 1] == right[column - 1] ? 0 : 1);
            diagonal = row[column];
            row[column] = std::min({changed, row[column] + 1, row[column - 1] + 1});
        }
    }
    return row.back();
}

int unknown_command(std::string_view name) {
    const Command* nearest = nullptr;
    size_t best = 3;  // a larger distance is not a typing error
    for (const CommandGroup& group : command_groups()) {
        for (const Command* command : group.commands) {
            const size_t here = distance(name, command->name);
            if (here < best && here < name.size()) {
                best = here;
                nearest = command;
            }
        }
    }
    const std::string hint =
        nearest == nullptr ? "" : " (did you mean " + quote(nearest->name) + "?)";
    complain({quote(name), " is not a warren command", hint});
    remark({"Try 'warren --help' for a list."});
    return 2;
}

int run_command(const Command& command, std::string program_name,
                const std::vector<char*>& arguments) {
    set_program(std::move(program_name));
    if (!join_ranks(command.spans_ranks)) return 1;
    const int code = command.run(arguments);
    flush_ranks();
    return finish_output() ? code : std::max(code, command.page.output_exit);
}

/// The program without a command: `warren help`, or one of its own options.
int run_program(const std::vector<char*>& arguments) {
    const Arguments parsed = parse_arguments(program_page, arguments);
    int code = parsed.exit_code;
    if (parsed.has('V')) {
        print_line({"warren ", WARREN_VERSION});
    } else if (const std::string* folder = parsed.value(manual_option)) {
        if (!write_manual(*folder)) code = 1;
    } else if (!parsed.done) {
        print_bytes(help_page(program_page, program()));
    }
    return finish_output() ? code : program_page.output_exit;
}

/// The part of a path after its last slash.
std::string_view base_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

int run(int count, char** words) {
    const std::vector<char*> arguments(words, words + count);
    const std::string_view called = count > 0 ? base_name(words[0]) : std::string_view("warren");
    for (const std::string_view helper_ending : {".fuse.warren", ".warren"}) {
        if (!called.ends_with(helper_ending)) continue;
        const std::string_view name = called.substr(0, called.size() - helper_ending.size());
        if (const Command* command = command_named(name)) {
            return run_command(*command, std::string(called), arguments);
        }
    }
    if (count < 2) {
        complain({"which command?"});
        remark({"Try 'warren --help' for a list."});
        return 2;
    }
    const std::string_view first = words[1];
    const bool help = first == "--help" || first == "-h" || first == "help";
    const bool names_command = help ? count > 2 : !first.starts_with('-');
    if (!names_command) return run_program(arguments);
    const std::string_view name = help ? words[2] : words[1];
    const Command* command = command_named(name);
    if (command == nullptr) return unknown_command(name);
    const std::string program_name = "warren " + std::string(name);
    if (!help) {
        return run_command(*command, program_name, {arguments.begin() + 1, arguments.end()});
    }
    char help_word[] = "--help";
    return run_command(*command, program_name, {words[2], help_word});
}

}  // namespace

}  // namespace warren::cli

int main(int count, char** words) {
    static_cast<void>(warren::cli::process_umask());  // cached before there are threads
    return warren::cli::run(count, words);
}
