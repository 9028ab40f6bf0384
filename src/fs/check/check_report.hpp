// SPDX-License-Identifier: Apache-2.0
// The report of a check. Lines are held back until all directories are known, so that those about
// an inode can name its path. The number of lines is limited, the count of problems is not.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "warren/volume.hpp"

namespace warren::check {

/// An ordinal (see InodeMap) that no inode has.
inline constexpr u32 nobody = ~u32{0};

class Report {
 public:
    /// Requires: `options` and `result` outlive this.
    Report(const CheckOptions& options, CheckResult& result) : options_(options), result_(result) {}

    /// A problem of the volume itself.
    void volume(std::string text) { add(nobody, std::move(text)); }
    /// A problem of a frame.
    void frame(u64 number, const std::string& text) {
        volume("frame " + std::to_string(number) + ": " + text);
    }
    /// A problem of an inode.
    void inode(u32 ordinal, std::string text) { add(ordinal, std::move(text)); }
    /// Passes all lines to CheckOptions::report. `path_of` returns the path of an inode.
    void flush(const std::function<std::string(u32)>& path_of);

 private:
    struct Line {
        u32 subject;
        std::string text;
    };
    static constexpr std::size_t lines_max = 10'000;

    void add(u32 subject, std::string text);

    const CheckOptions& options_;
    CheckResult& result_;
    std::vector<Line> lines_;
    u64 unheld_ = 0;  // number of problems beyond lines_max
};

}  // namespace warren::check
