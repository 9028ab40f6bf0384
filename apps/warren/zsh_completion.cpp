// SPDX-License-Identifier: Apache-2.0
// One function for each command, which passes its options to _arguments.
#include "apps/warren/completions.hpp"

namespace warren::cli {

namespace {

constexpr std::string_view zsh_tail = R"(
_warren() {
    local curcontext="$curcontext" command
    if [[ $service == *.warren ]]; then
        command=${${service%.warren}%.fuse}
    elif (( CURRENT == 2 )); then
        _warren_commands
        _warren_options
        return
    elif [[ $words[2] == -* ]]; then
        _warren_options
        return
    else
        command=$words[2]
        shift words
        (( CURRENT-- ))
    fi
    if [[ $command == help ]]; then
        (( CURRENT == 2 )) && _warren_commands
    elif (( $+functions[_warren_$command] )); then
        _warren_$command
    else
        _files
    fi
}

_warren "$@"
)";

/// Quotes text for a specification of _arguments, inside single quotes.
std::string quoted_text(std::string_view text) {
    std::string result;
    for (const char letter : text) {
        if (letter == '\'') {
            result += "'\\''";
        } else {
            if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') result += '\\';
            result += letter;
        }
    }
    return result;
}

/// ":SIZE:ACTION", or nothing.
std::string zsh_value(const CompletedWord& word) {
    if (word.kind == ValueKind::none) return "";
    std::string text = word.is_optional ? "::" : ":";
    text +=
        quoted_text(word.is_optional ? word.value.substr(2, word.value.size() - 3) : word.value);
    switch (word.kind) {
        case ValueKind::file:
            return text + ":_files";
        case ValueKind::directory:
            return text + ":_files -/";
        case ValueKind::choice:
            return text + ":(" + word.choices + ")";
        case ValueKind::list:
            return text + ":_sequence compadd - " + word.choices;
        default:
            return text + ": ";
    }
}

/// One line for each spelling. All options may be repeated.
std::string specifications(const CompletedWord& word) {
    std::string text;
    for (const std::string& spelling : word.spellings) {
        const bool is_long = spelling.starts_with("--");
        const bool has_value = word.kind != ValueKind::none;
        text += "        '*" + spelling;
        if (has_value && is_long) text += word.is_optional ? "=-" : "=";
        if (has_value && spelling.size() == 2) text += "+";
        text += "[" + quoted_text(word.help) + "]" + zsh_value(word) + "'\n";
    }
    return text;
}

/// A function that completes the options of the page, and file names.
std::string options_function(const std::string& name, const Page& page) {
    std::string text = "\n" + name + "() {\n    local -a options\n    options=(\n";
    bool bundles = true;  // letters may be bundled, unless long names begin with one dash
    for (const CompletedWord& word : completed_words(page)) {
        text += specifications(word);
        const std::string& first = word.spellings[0];
        bundles = bundles && (first.size() == 2 || first.starts_with("--"));
    }
    return text + "    )\n    _arguments " + (bundles ? "-s " : "") +
           "-S $options '*:file:_files'\n}\n";
}

}  // namespace

std::string zsh_completion() {
    std::string programs = "#compdef warren";
    std::string commands = "        'help:show the help page of a command'\n";
    std::string functions = options_function("_warren_options", program_page);
    for (const CommandGroup& group : command_groups()) {
        for (const Command* command : group.commands) {
            const std::string name = command->name;
            commands += "        '" + name + ":" + quoted_text(command->purpose) + "'\n";
            functions += options_function("_warren_" + name, command->page);
            for (const char* helper : command->helpers) {
                if (helper != nullptr) programs += " " + std::string(helper);
            }
        }
    }
    return programs + "\n# Made by `warren --manual`.\n\n_warren_commands() {\n" +
           "    local -a commands\n    commands=(\n" + commands +
           "    )\n    _describe -t commands 'command of warren' commands\n}\n" + functions +
           std::string(zsh_tail);
}

}  // namespace warren::cli
