// SPDX-License-Identifier: Apache-2.0
// The list of all commands, and the text of `warren --help`.
#include "apps/warren/commands.hpp"

namespace warren::cli {

namespace {

std::vector<Section> program_sections() {
    std::vector<Section> sections;
    for (const CommandGroup& group : command_groups()) {
        Section& section = sections.emplace_back(group.heading);
        for (const Command* command : group.commands)
            section.words.push_back({command->name, nullptr, command->purpose});
    }
    return sections;
}

constexpr Option warren_options[] = {
    {'V', "version", nullptr, "print the version"},
    {manual_option, "manual", "FOLDER",
     "write the manual pages and the shell completions to FOLDER"},
    {'h', nullptr, nullptr, nullptr},
};

constexpr ExitCode warren_exits[] = {
    {"0", "success"},
    {"1", "the output could not be written"},
    {"2", "unknown command"},
    {"other", "the exit status of the command"},
};

}  // namespace

const Page program_page = {
    .usage = "COMMAND [OPTION]... [FILE]...\nhelp [COMMAND]",
    .summary =
        "The Warren file system: manage volumes, and work on whole trees with one command of "
        "the engine. FILE is IMAGE:/path inside a volume that is not mounted, or a path of "
        "the host. `warren COMMAND --help` describes each command.",
    .options = warren_options,
    .sections = program_sections,
    .exits = warren_exits,
    .examples =
        "  warren mkfs v.img --size 2G\n"
        "  warren cp -a ~/src v.img:/\n"
        "  warren mount v.img /mnt/w && make -C /mnt/w/src\n"
        "  warren rm -r /mnt/w/src\n"
        "  warren umount /mnt/w && warren fsck v.img",
    .usage_exit = 2,
    .stop_at_operand = true,
};

const std::vector<CommandGroup>& command_groups() {
    static const std::vector<CommandGroup> groups = {
        {"Volumes",
         {&mkfs_command, &mount_command, &umount_command, &fsck_command, &info_command,
          &resize_command, &sync_command, &device_command, &doctor_command}},
        {"Whole trees as one command",
         {&rm_command, &mv_command, &clone_command, &find_command, &du_command, &cmp_command,
          &chmod_command, &chown_command, &walk_command, &rebuild_command}},
        {"Contents", {&hash_command, &chunk_command, &similar_command, &dedup_command}},
        {"Files",
         {&ls_command, &cp_command, &cat_command, &mkdir_command, &ln_command, &touch_command,
          &stat_command}},
    };
    return groups;
}

const Command* command_named(std::string_view name) {
    for (const CommandGroup& group : command_groups()) {
        for (const Command* command : group.commands) {
            if (name == command->name) return command;
        }
    }
    return nullptr;
}

}  // namespace warren::cli
