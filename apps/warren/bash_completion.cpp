// SPDX-License-Identifier: Apache-2.0
// One function with a case for each command. It needs only bash, not the package bash-completion.
//
// bash breaks words at '=' and ':' (COMP_WORDBREAKS), which occur within words here. The function
// therefore splits the line itself, and strips from each completion the part that bash keeps.
#include "apps/warren/completions.hpp"

namespace warren::cli {

namespace {

constexpr std::string_view bash_head = R"(# bash completion for warren(1), made by `warren --manual`

# Sets what the command $1 has, and what is to be known of its option $2.
_warren_table() {
    options='' kind='' values=''
    case $1 in
)";

constexpr std::string_view bash_tail = R"(    esac
}

_warren() {
    local line=${COMP_LINE:0:COMP_POINT} options kind values
    local -a words
    read -ra words <<<"$line"
    local current=''
    if [[ $line == *[![:space:]] ]]; then
        current=${words[-1]}
        unset 'words[-1]'
    fi
    COMPREPLY=()
    local name=${words[0]##*/} command
    case $name in
        *.warren) command=${name%.warren} command=${command%.fuse} ;;
        *)
            command=${words[1]-}
            if [[ $command == help || $command == --help ]]; then
                ((${#words[@]} == 2)) || return
                command=''
            fi
            ;;
    esac

    local prefix='' value=$current candidates
    if [[ $current == --*=* ]]; then
        _warren_table "$command" "${current%%=*}="
        prefix=${current%%=*}= value=${current#*=}
    else
        _warren_table "$command" "${words[-1]}"
    fi
    case $kind in
        file) return ;;
        directory)
            compopt -o dirnames +o default +o bashdefault 2>/dev/null
            return
            ;;
        text)
            compopt +o default +o bashdefault 2>/dev/null
            return
            ;;
        choice) candidates=$values ;;
        list)
            candidates=$values
            prefix+=${value%"${value##*,}"} value=${value##*,}
            compopt -o nospace 2>/dev/null
            ;;
        *)
            [[ $current == -* || $command == '' ]] || return
            candidates=$options
            ;;
    esac
    local IFS=$' \t\n'
    COMPREPLY=($(compgen -P "$prefix" -W "$candidates" -- "$value"))
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null

    local kept='' at
    for ((at = 0; at < ${#current}; ++at)); do
        [[ ${current:at:1} == [=:] && $COMP_WORDBREAKS == *"${current:at:1}"* ]] &&
            kept=${current:0:at+1}
    done
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
}

complete -o bashdefault -o default -F _warren)";

std::string kind_name(ValueKind kind) {
    switch (kind) {
        case ValueKind::file:
            return "file";
        case ValueKind::directory:
            return "directory";
        case ValueKind::choice:
            return "choice";
        case ValueKind::list:
            return "list";
        default:
            return "text";
    }
}

/// The case patterns of an option whose value follows, as the next word or after "=".
std::string patterns(const CompletedWord& word) {
    std::string text;
    for (const std::string& spelling : word.spellings) {
        const std::string bar = text.empty() ? "" : " | ";
        if (!word.is_optional) text += bar + spelling;
        if (spelling.starts_with("--")) text += (text.empty() ? "" : " | ") + spelling + "=";
    }
    return text;
}

void append_case(std::string& script, const std::string& name, const Page& page,
                 const std::string& more) {
    std::string options = more;
    std::string values;
    for (const CompletedWord& word : completed_words(page)) {
        for (const std::string& spelling : word.spellings) {
            const bool has_value = word.kind != ValueKind::none && spelling.starts_with("--");
            if (!has_value || word.is_optional) options += " " + spelling;
            if (has_value) options += " " + spelling + "=";
        }
        if (word.kind == ValueKind::none) continue;
        values += "                " + patterns(word) + ") kind=" + kind_name(word.kind);
        if (!word.choices.empty()) values += " values='" + word.choices + "'";
        values += " ;;\n";
    }
    script += "        " + name + ")\n            options='" +
              options.substr(options.starts_with(' ') ? 1 : 0) + "'\n";
    if (!values.empty()) script += "            case $2 in\n" + values + "            esac\n";
    script += "            ;;\n";
}

}  // namespace

std::string bash_completion() {
    std::string script(bash_head);
    std::string names = "help";
    std::string programs = " warren";
    for (const CommandGroup& group : command_groups()) {
        for (const Command* command : group.commands) {
            append_case(script, command->name, command->page, "");
            names += " " + std::string(command->name);
            for (const char* helper : command->helpers) {
                if (helper != nullptr) programs += " " + std::string(helper);
            }
        }
    }
    append_case(script, "''", program_page, names);
    script += bash_tail;
    return script + programs + "\n";
}

}  // namespace warren::cli
