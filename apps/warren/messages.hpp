// SPDX-License-Identifier: Apache-2.0
// Messages to the user: errors on stderr, one line each, beginning with the name of the command as
// it was called ("warren rm", "fsck.warren").
//
// Invariant: lines of several threads never mix, and a status line on the terminal is cleared
// before anything else is written. The locale affects only which characters are printable.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/quote.hpp"
#include "warren/result.hpp"

namespace warren::cli {

/// Sets the name with which every error message begins.
void set_program(std::string name);
const std::string& program();

/// Writes "PROGRAM: " and the parts as one line on stderr.
void complain(std::initializer_list<std::string_view> parts);

/// Writes the parts as one line on stderr, without a prefix.
void remark(std::initializer_list<std::string_view> parts);

/// Writes the parts as one line on stdout.
void print_line(std::initializer_list<std::string_view> parts);

/// Writes bytes on stdout; the output of other threads comes before or after them.
void print_bytes(std::string_view bytes);

/// Flushes stdout; false, after an error message, if any of it could not be written.
bool finish_output();

/// Asks on stderr and reads a line from stdin; true if it begins with y or Y.
bool ask(std::initializer_list<std::string_view> parts);

// File names, quoted by base/quote.hpp. Error messages and prompts always quote them. Output for
// programs leaves them as they are; on a terminal they are quoted, or masked in lines with a fixed
// format (find, checksums), as the GNU tools do.

/// 'name' in quotes, for use within a sentence.
inline std::string quote(std::string_view name) {
    return shell_quoted(name);
}
/// For the beginning of a message ("NAME: reason"): quoted only if necessary.
inline std::string quote_if_needed(std::string_view name) {
    return quoted_if_needed(name);
}
/// Whether stdout is a terminal.
bool prints_to_terminal();
/// Appends a name in its form for stdout.
void append_name(std::string& text, std::string_view name);
void append_masked_name(std::string& text, std::string_view name);
/// The name in its form for stdout.
std::string output_name(std::string_view name);
std::string masked_name(std::string_view name);

/// The text of strerror for the code, in English, and what to do where that is certain.
std::string reason(Errc code);
/// The same for a file of a checkpoint.
std::string checkpoint_reason(Errc code);

/// Reports that the temporary file of a list of files could not be written, and what to do.
void complain_of_list(Errc code);

/// Shows `text` as the terminal's last line, in place of the previous status; "" clears it.
void show_status(std::string_view text);

}  // namespace warren::cli
