// SPDX-License-Identifier: Apache-2.0
// One mutex orders all output, of all threads and on both streams.
#include "apps/warren/messages.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <unordered_set>

#include "apps/fuse/control_protocol.hpp"
#include "apps/warren/ranks.hpp"
#include "base/last_error.hpp"
#include "base/temporary_file.hpp"
#include "walk/launch.hpp"

namespace warren::cli {

namespace {

std::mutex output_mutex;
bool status_shown = false;
std::string program_name = "warren";
std::unordered_set<std::string> said;  // complaints, if other ranks complain here too
constexpr size_t said_most = 1000;

/// Clears the status line. Requires: the mutex is held.
void clear_status() {
    if (!status_shown) return;
    status_shown = false;
    std::fputs("\r\033[K", stderr);
}

void write_line(FILE* stream, std::string_view head,
                std::initializer_list<std::string_view> parts) {
    std::string line(head);
    for (std::string_view part : parts)
        line += part;
    line += '\n';
    const bool is_complaint = stream == stderr;
    if (rank_number() != 0) {
        return send_to_rank_0(is_complaint ? RankMessage::complaint : RankMessage::output, line);
    }
    std::lock_guard lock(output_mutex);
    if (is_complaint && rank_count() > 1 && said.size() < said_most) said.insert(line);
    clear_status();
    std::fwrite(line.data(), 1, line.size(), stream);
}

}  // namespace

void set_program(std::string name) {
    program_name = std::move(name);
}

const std::string& program() {
    return program_name;
}

void complain(std::initializer_list<std::string_view> parts) {
    write_line(stderr, program_name + ": ", parts);
}

void remark(std::initializer_list<std::string_view> parts) {
    write_line(stderr, "", parts);
}

void print_line(std::initializer_list<std::string_view> parts) {
    write_line(stdout, "", parts);
}

void relay_complaint(std::string_view line) {
    std::lock_guard lock(output_mutex);
    if (said.size() < said_most && !said.emplace(line).second) return;
    clear_status();
    std::fwrite(line.data(), 1, line.size(), stderr);
}

void print_bytes(std::string_view bytes) {
    if (rank_number() != 0) return send_to_rank_0(RankMessage::output, bytes);
    std::lock_guard lock(output_mutex);
    clear_status();
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}

bool finish_output() {
    bool failed = std::ferror(stdout) != 0;
    if (std::fflush(stdout) != 0) failed = true;
    if (failed) complain({"cannot write to standard output: ", reason(last_error())});
    return !failed;
}

bool ask(std::initializer_list<std::string_view> parts) {
    std::string question = program_name + ": ";
    for (std::string_view part : parts)
        question += part;
    {
        std::lock_guard lock(output_mutex);
        clear_status();
        std::fflush(stdout);
        std::fwrite(question.data(), 1, question.size(), stderr);
        std::fflush(stderr);
    }
    int first = std::getchar();
    for (int next = first; next != '\n' && next != EOF;)
        next = std::getchar();
    return first == 'y' || first == 'Y';
}

bool prints_to_terminal() {
    // mpirun may give a rank a terminal of its own while it passes the output on to a file, so
    // isatty() says nothing under mpirun.
    static const bool is_terminal =
        ::isatty(STDOUT_FILENO) == 1 && walk::launch_of_environment().is_alone();
    return is_terminal;
}

void append_name(std::string& text, std::string_view name) {
    prints_to_terminal() ? text += quoted_if_needed(name) : text += name;
}

void append_masked_name(std::string& text, std::string_view name) {
    prints_to_terminal() ? text += masked(name) : text += name;
}

std::string output_name(std::string_view name) {
    return prints_to_terminal() ? quoted_if_needed(name) : std::string(name);
}

std::string masked_name(std::string_view name) {
    return prints_to_terminal() ? masked(name) : std::string(name);
}

std::string reason(Errc code) {
    if (code == Errc::corrupt) return "The volume is damaged (unmount it and run 'warren fsck')";
    if (code == fuse::other_protocol) {
        return "The daemon of the mount is another version of Warren (unmount it and mount it "
               "again)";
    }
    const char* text = strerrordesc_np(static_cast<int>(code));
    if (text != nullptr) return text;
    return "error " + std::to_string(static_cast<int>(code));
}

std::string checkpoint_reason(Errc code) {
    if (code != Errc::corrupt) return reason(code);
    return "it is damaged or was not written by Warren, or by another version of it; remove the "
           "checkpoint and run the command without --resume";
}

void complain_of_list(Errc code) {
    complain({"cannot keep the list of files in ", quote(temporary_folder()), ": ", reason(code),
              "; let TMPDIR name a folder with room for it, or give it more --memory"});
}

void show_status(std::string_view text) {
    std::lock_guard lock(output_mutex);
    clear_status();
    if (text.empty()) {
        std::fflush(stderr);
        return;
    }
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
    status_shown = true;
}

}  // namespace warren::cli
