// SPDX-License-Identifier: Apache-2.0
// Lines are printed in the order in which the problems were found, those of the volume among those
// of inodes, so that causes come before consequences.
#include "fs/check/check_report.hpp"

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

}  // namespace warren::check
