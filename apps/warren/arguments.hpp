// SPDX-License-Identifier: Apache-2.0
// A command's options, help page, manual page and completions are all generated from one table, so
// they cannot disagree. Parsing follows getopt_long(3): bundled letters, --name=value, unambiguous
// abbreviations of long names, "--" ends the options, options may follow operands.
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
    const char* value;          // null: a switch; "[=X]": an optional value; see value_kind()
    const char* help;           // null: accepted but not shown; "{}" stands for the choices
    Choices choices = nullptr;  // the values that are accepted
};

/// How the value of an option is completed; derived from the value's name in the table.
enum class ValueKind : u8 { none, text, file, directory, choice, list };
ValueKind value_kind(const Option& option);
/// Whether the value is optional.
bool is_optional(const Option& option);
/// The help text, with the choices filled in.
std::string help_of(const Option& option);

/// The ids of every command's --help and --json, and of --engine.
inline constexpr int help_option = 1000;
inline constexpr int json_option = 1001;
inline constexpr int engine_option = 1002;

struct ExitCode {
    const char* code;
    const char* meaning;
};

/// A group of words that are not options, such as mount options or find's tests.
struct Section {
    const char* heading;
    std::vector<OptionWord> words;
};

/// Texts are wrapped when they are printed; an empty line begins a paragraph.
struct Page {
    const char* usage;    // one line for each form, without the program's name
    const char* summary;  // what the command does
    std::span<const Option> options = {};
    std::vector<Section> (*sections)() = nullptr;
    const char* notes = nullptr;
    std::span<const ExitCode> exits = {};  // empty: 0 for success, usage_exit for any failure
    const char* examples = nullptr;        // whole lines
    const char* see_also = nullptr;        // pages of other programs
    int usage_exit = 1;                    // exit code for a usage error
    int output_exit = usage_exit;          // exit code if the output cannot be written
    bool stop_at_operand = false;          // options end at the first operand
    bool opens_images = false;             // takes --engine, and WARREN_ENGINE from the environment
    bool chooses_processor = false;        // likewise; --engine selects the CPU or a GPU
};

/// All options of the page, including --engine and --help.
std::vector<Option> all_options(const Page& page);

struct Arguments {
    bool done = false;  // the command is finished: exit with exit_code
    int exit_code = 0;
    std::vector<std::pair<int, std::string>> options;  // in the order given
    std::vector<std::string> operands;

    bool has(int id) const;
    /// The id of the option among `ids` that was given last, or 0.
    int last_of(std::initializer_list<int> ids) const;
    /// The last value given for an option; null if it was not given.
    const std::string* value(int id) const;
};

/// Parses the arguments. Prints the help page or an error message if that is all there is to do.
Arguments parse_arguments(const Page& page, std::span<char* const> arguments);

/// The first option given whose help says "host only"; empty if there is none.
std::string option_for_host(const Page& page, const Arguments& parsed);

/// Prints an error message that points to --help, and returns the page's exit code for usage
/// errors.
int usage_error(const Page& page, std::initializer_list<std::string_view> parts);

/// Whether there are enough operands; if not, prints the message that coreutils print.
bool need_operand(const Arguments& parsed);

}  // namespace warren::cli
