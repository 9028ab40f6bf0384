// SPDX-License-Identifier: Apache-2.0
// The program `warren`: finds the command by its name, or by the name that the program was called
// by (mkfs.warren, fsck.warren, mount.warren and, as mount(8) names the type of a FUSE mount,
// mount.fuse.warren), and runs it.
//
// Invariant: exit code 2 means that there is no such command; what was printed on stdout has been
// written when the program ends with success.
#include <warren/version.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"

namespace warren::cli {

namespace {

struct Command {
    const char* name;
    int (*run)(std::span<char* const> arguments);
    const char* group;  // heading on the help page; null: same as before
    const char* summary;
    bool spans_ranks = false;  // whether the processes that mpirun starts do it together
};

constexpr Command commands[] = {
    {"mkfs", command_mkfs, "Volumes", "make an empty volume in a file or on a device"},
    {"mount", command_mount, nullptr, "mount a volume"},
    {"umount", command_umount, nullptr, "unmount it and wait until all is written"},
    {"fsck", command_fsck, nullptr, "check a volume, repair it"},
    {"info", command_info, nullptr, "what a volume is and how full it is"},
    {"resize", command_resize, nullptr, "make a volume larger"},
    {"sync", command_sync, nullptr, "make what was written durable, or a tree equal to another",
     true},
    {"doctor", command_doctor, nullptr, "what this machine gives Warren, and what it measures"},
    {"rm", command_rm, "Whole trees as one command", "remove files and trees", true},
    {"mv", command_mv, nullptr, "rename and move files"},
    {"find", command_find, nullptr, "search a tree", true},
    {"du", command_du, nullptr, "how much space trees take", true},
    {"cmp", command_cmp, nullptr, "compare files and trees of the host", true},
    {"chmod", command_chmod, nullptr, "change modes, of whole trees too", true},
    {"chown", command_chown, nullptr, "change owners, of whole trees too", true},
    {"walk", command_walk, nullptr, "list a tree of the host, on all cores", true},
    {"rebuild", command_rebuild, nullptr, "pack directories"},
    {"hash", command_hash, "Contents", "digests of files and trees, and checks of them", true},
    {"chunk", command_chunk, nullptr, "cut files where their contents say so"},
    {"similar", command_similar, nullptr, "how much of a file is in another"},
    {"dedup", command_dedup, nullptr, "what is there twice, and share it"},
    {"ls", command_ls, "Files", "list names"},
    {"cp", command_cp, nullptr, "copy files and trees, into and out of volumes too", true},
    {"cat", command_cat, nullptr, "write out contents"},
    {"mkdir", command_mkdir, nullptr, "make directories"},
    {"ln", command_ln, nullptr, "make links"},
    {"touch", command_touch, nullptr, "make empty files, set times"},
    {"stat", command_stat, nullptr, "all attributes of a file"},
};

constexpr std::string_view help_tail =
    "\nFILE is IMAGE:/path inside a volume that is not mounted, or a path of the host.\n"
    "'warren COMMAND --help' says more about each.\n"
    "\nExamples:\n"
    "  warren mkfs v.img --size 2G\n"
    "  warren cp -a ~/src v.img:/\n"
    "  warren mount v.img /mnt/w && make -C /mnt/w/src\n"
    "  warren rm -r /mnt/w/src\n"
    "  warren umount /mnt/w && warren fsck v.img\n";

void print_help() {
    std::string page =
        "Usage: warren COMMAND [OPTION]... [FILE]...\n"
        "The Warren file system: volumes, and bulk work on them as one command of the engine.\n";
    for (const Command& command : commands) {
        if (command.group != nullptr) page += "\n" + std::string(command.group) + ":\n";
        std::string line = "  " + std::string(command.name);
        line.resize(12, ' ');
        page += line + command.summary + "\n";
    }
    print_bytes(page);
    print_bytes(help_tail);
}

const Command* find_command(std::string_view name) {
    for (const Command& command : commands) {
        if (name == command.name) return &command;
    }
    return nullptr;
}

/// How many letters must be changed, added or left out to turn one word into the other.
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
    size_t best = 3;  // further away is no misspelling
    for (const Command& command : commands) {
        const size_t here = distance(name, command.name);
        if (here < best && here < name.size()) {
            best = here;
            nearest = &command;
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
    settle_ranks();
    const bool written = finish_output();
    return code == 0 && !written ? 1 : code;
}

/// The part of a path behind its last slash.
std::string_view base_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

int run(int count, char** words) {
    const std::vector<char*> arguments(words, words + count);
    const std::string_view called = count > 0 ? base_name(words[0]) : std::string_view("warren");
    for (const std::string_view helper_ending : {".fuse.warren", ".warren"}) {
        if (!called.ends_with(helper_ending)) continue;
        const std::string_view name = called.substr(0, called.size() - helper_ending.size());
        if (const Command* command = find_command(name)) {
            return run_command(*command, std::string(called), arguments);
        }
    }
    if (count < 2) {
        complain({"which command?"});
        remark({"Try 'warren --help' for a list."});
        return 2;
    }
    const std::string_view first = words[1];
    if (first == "--version" || first == "-V") {
        print_line({"warren ", WARREN_VERSION});
        return finish_output() ? 0 : 1;
    }
    const bool help = first == "--help" || first == "-h" || first == "help";
    if (help && count == 2) {
        print_help();
        return finish_output() ? 0 : 1;
    }
    const std::string_view name = help ? words[2] : words[1];
    const Command* command = find_command(name);
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
    static_cast<void>(warren::cli::process_umask());  // read before there are threads
    return warren::cli::run(count, words);
}
