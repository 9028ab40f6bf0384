// SPDX-License-Identifier: Apache-2.0
// What the program says to people: complaints on stderr, one line each, opened by the name of the
// command as it was called ("warren rm", "fsck.warren").
//
// Invariant: lines of several threads never mix, and a status line on the terminal is cleared
// before anything else is written. Nothing here depends on the locale but what is printable.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/quote.hpp"
#include "warren/result.hpp"

namespace warren::cli {

/// Sets the name that opens every complaint.
void set_program(std::string name);
const std::string& program();

/// Writes "PROGRAM: " and the parts as one line on stderr.
void complain(std::initializer_list<std::string_view> parts);

/// Writes the parts as one line on stderr as they are.
void remark(std::initializer_list<std::string_view> parts);

/// Writes the parts as one line on stdout.
void print_line(std::initializer_list<std::string_view> parts);

/// Writes bytes on stdout, whole before anybody else's.
void print_bytes(std::string_view bytes);

/// Flushes stdout; false, with a complaint, if any of it could not be written.
bool finish_output();

/// Asks on stderr and reads a line from stdin; true if it begins with y or Y.
bool ask(std::initializer_list<std::string_view> parts);

// Names, as base/quote.hpp has them. Complaints and prompts quote them always. Output for programs
// has them as they are; only where it goes to a terminal they are quoted, or masked in lines that
// have a form of their own (find, checksums), as the GNU tools do it.

/// 'name' in quotes, for the middle of a sentence.
inline std::string quote(std::string_view name) {
    return shell_quoted(name);
}
/// For its beginning ("NAME: reason"): without quotes where it needs none.
inline std::string quote_if_needed(std::string_view name) {
    return quoted_if_needed(name);
}
/// Whether stdout is a terminal.
bool prints_to_terminal();
/// Appends a name as stdout is to have it.
void append_name(std::string& text, std::string_view name);
void append_masked_name(std::string& text, std::string_view name);
/// The name as stdout is to have it.
std::string output_name(std::string_view name);
std::string masked_name(std::string_view name);

/// What strerror says of the code, in English, and what to do where that is certain.
std::string reason(Errc code);
/// The same of a file of a checkpoint, with what to do.
std::string checkpoint_reason(Errc code);

/// Complains that a list of files found no room in its temporary file, and says what to do.
void complain_of_list(Errc code);

/// Shows `text` on the terminal's last line in place of what was shown before; empty clears it.
void show_status(std::string_view text);

}  // namespace warren::cli
