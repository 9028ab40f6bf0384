// SPDX-License-Identifier: Apache-2.0
// One line for each option. mount.warren and the other helpers complete like the commands they run.
#include "apps/warren/completions.hpp"

namespace warren::cli {

namespace {

constexpr std::string_view fish_head = R"(# fish completion for warren(1), made by `warren --manual`

# Whether no command has been typed.
function __warren_has_no_command
    test (count (commandline -opc)) -eq 1
end

# Whether the command is $argv[1].
function __warren_runs
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = $argv[1]
end

# The arguments, each behind what has been typed of a list with commas up to its last one.
function __warren_list
    set -l before (string match -r -- '^.*,' (commandline -ct))
    printf '%s\n' "$before"$argv
end

complete -c warren -n __warren_has_no_command -f
complete -c warren -n __warren_has_no_command -a help -d 'show the help page of a command'
)";

std::string in_quotes(std::string_view text) {
    std::string result = "'";
    for (const char letter : text) {
        if (letter == '\'' || letter == '\\') result += '\\';
        result += letter;
    }
    return result + "'";
}

std::string fish_value(const CompletedWord& word) {
    switch (word.kind) {
        case ValueKind::none:
            return "";
        case ValueKind::file:
            return " -r -F";
        case ValueKind::directory:
            return " -x -a '(__fish_complete_directories)'";
        case ValueKind::choice:
            return std::string(word.is_optional ? " -f" : " -x") + " -a " + in_quotes(word.choices);
        case ValueKind::list:
            return std::string(word.is_optional ? " -f" : " -x") + " -a \"(__warren_list " +
                   word.choices + ")\"";
        default:
            return " -x";
    }
}

void append_words(std::string& script, const std::string& condition, const Page& page) {
    for (const CompletedWord& word : completed_words(page)) {
        script += "complete -c warren -n " + condition;
        for (const std::string& spelling : word.spellings) {
            if (spelling.starts_with("--")) {
                script += " -l " + spelling.substr(2);
            } else {
                script += (spelling.size() == 2 ? " -s " : " -o ") + spelling.substr(1);
            }
        }
        script += fish_value(word) + " -d " + in_quotes(word.help) + "\n";
    }
}

}  // namespace

std::string fish_completion() {
    std::string script(fish_head);
    std::string helpers;
    for (const CommandGroup& group : command_groups()) {
        for (const Command* command : group.commands) {
            const std::string name = command->name;
            const std::string purpose = in_quotes(command->purpose);
            script += "complete -c warren -n __warren_has_no_command -a " + name + " -d " +
                      purpose + "\n";
            script += "complete -c warren -n '__warren_runs help' -f -a " + name + " -d " +
                      purpose + "\n";
            append_words(script, "'__warren_runs " + name + "'", command->page);
            for (const char* helper : command->helpers) {
                if (helper == nullptr) continue;
                helpers += "complete -c " + std::string(helper) + " -w 'warren " + name + "'\n";
            }
        }
    }
    append_words(script, "__warren_has_no_command", program_page);
    return script + helpers;
}

}  // namespace warren::cli
