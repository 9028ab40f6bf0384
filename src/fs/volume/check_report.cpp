// SPDX-License-Identifier: Apache-2.0
// Lines come out in the order in which the problems were met, the volume's own among those of
// inodes, because a reader wants causes before consequences.
#include "fs/volume/check_report.hpp"

#include <utility>

namespace warren::check {

void Report::add(u32 subject, std::string text) {
    ++result_.problems;
    if (!options_.report) return;
    if (lines_.size() == lines_max) {
        ++unheld_;
        return;
    }
    lines_.push_back({subject, std::move(text)});
}

void Report::flush(const std::function<std::string(u32)>& path_of) {
    for (const Line& line : lines_) {
        const bool is_volume = line.subject == nobody;
        options_.report(is_volume ? line.text : path_of(line.subject) + ": " + line.text);
    }
    if (unheld_ > 0) options_.report("and " + std::to_string(unheld_) + " more problems");
    lines_.clear();
    unheld_ = 0;
}

std::string printable(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
        const auto byte = static_cast<u8>(c);
        if (byte >= 0x20 && byte != 0x7f && byte != '\\') {
            text += c;
            continue;
        }
        text += '\\';
        for (int shift = 6; shift >= 0; shift -= 3) {
            text += static_cast<char>('0' + (byte >> shift & 7));
        }
    }
    return text;
}

}  // namespace warren::check
