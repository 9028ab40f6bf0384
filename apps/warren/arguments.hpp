// SPDX-License-Identifier: Apache-2.0
// A command's options, its help page, its manual page and its completions come from one table, so
// that none can lie about the others. The rules are those of getopt_long(3): bundled letters,
// --name=value, unique beginnings of long names, "--" ends options, options may follow operands.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/fuse/option_word.hpp"
#include "warren/types.hpp"

namespace warren::cli {

struct Option {
    int id;                     // the short form's letter, or a number from 256 on if there is none
    const char* name;           // long form without dashes, or null
    const char* value;          // null: a switch; "[=X]": may be left out; see value_kind()
    const char* help;           // null: accepted, but not on the help page; "{}": the choices
    Choices choices = nullptr;  // the values that there are
};

/// What completes the value of an option; its name in the table says so.
enum class ValueKind : u8 { none, text, file, directory, choice, list };
ValueKind value_kind(const Option& option);
/// Whether the value may be left out.
bool is_optional(const Option& option);
/// The help with the choices in it.
std::string help_of(const Option& option);

/// The ids of every command's --help and --json, and of --engine.
inline constexpr int help_option = 1000;
inline constexpr int json_option = 1001;
inline constexpr int engine_option = 1002;

struct ExitCode {
    const char* code;
    const char* meaning;
};

/// Words of one kind that are no options.
struct Section {
    const char* heading;
    std::vector<OptionWord> words;
};

/// Texts are wrapped where they are shown; an empty line begins a paragraph.
struct Page {
    const char* usage;    // one line for each form, without the program's name
    const char* summary;  // what the command does
    std::span<const Option> options = {};
    std::vector<Section> (*sections)() = nullptr;
    const char* notes = nullptr;
    std::span<const ExitCode> exits = {};  // empty: 0, and usage_exit for all that goes wrong
    const char* examples = nullptr;        // whole lines
    const char* see_also = nullptr;        // pages of other programs
    int usage_exit = 1;                    // exit code for a call that makes no sense
    bool stop_at_operand = false;          // options end at the first operand
    bool opens_images = false;             // takes --engine, and WARREN_ENGINE from the environment
    bool chooses_processor = false;        // takes them too: the CPU or a GPU computes
};

/// All options of the page, with --engine and --help.
std::vector<Option> all_options(const Page& page);

struct Arguments {
    bool done = false;  // nothing left to do: answer exit_code
    int exit_code = 0;
    std::vector<std::pair<int, std::string>> options;  // in the order given
    std::vector<std::string> operands;

    bool has(int id) const;
    /// Whichever of the options was given last, or 0.
    int last_of(std::initializer_list<int> ids) const;
    /// The last value given for an option; null if it was not given.
    const std::string* value(int id) const;
};

/// Reads the arguments; prints the help page or a complaint if that is all there is to do.
Arguments parse_arguments(const Page& page, std::span<char* const> arguments);

/// Complains, points to --help and answers the page's exit code for a wrong call.
int usage_error(const Page& page, std::initializer_list<std::string_view> parts);

/// Whether there are enough operands; complains as coreutils do if not.
bool need_operand(const Arguments& parsed);

}  // namespace warren::cli
