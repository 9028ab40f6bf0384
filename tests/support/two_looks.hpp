// SPDX-License-Identifier: Apache-2.0
// A check runs a parallel quick check of all metadata, and a full check where that finds a flaw.
// Its report must depend neither on the engine of the quick check nor on whether there was one, so
// tests check every volume both ways.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fs/check/check.hpp"
#include "tests/support/test_engine.hpp"

namespace warren::test {

/// The result of one check.
struct Outcome {
    Failure failure;
    CheckResult result;
    std::vector<std::string> lines;

    i64 count(const std::string& text) const {
        return std::ranges::count_if(
            lines, [&](const auto& line) { return line.find(text) != line.npos; });
    }
    bool says(const std::string& text) const { return count(text) > 0; }
    std::string all() const {
        std::string text = failure.message + "\n";
        for (const std::string& line : lines)
            text += line + "\n";
        return text;
    }
};

/// The engine of the quick check: that of WARREN_TEST_ENGINE if it is the program's own.
inline EngineChoice looking_engine() {
    return test_engine_name("cpu") == "cuda" ? EngineChoice::cuda : EngineChoice::cpu;
}

inline Outcome check_once(Disk& disk, bool repair, bool is_full, u64 hash_mask = ~u64{0}) {
    Outcome outcome;
    CheckOptions options;
    options.repair = repair;
    options.engine = looking_engine();
    options.is_full = is_full;
    options.report = [&](const std::string& line) { outcome.lines.push_back(line); };
    outcome.failure = check_disk(disk, "image", options, outcome.result, hash_mask);
    return outcome;
}

/// Checks the volume both ways without changing it, and expects equal reports: the quick check
/// finds a flaw if the full check finds problems, and only then unless `may_doubt`.
inline Outcome expect_equal_looks(Disk& disk, u64 hash_mask = ~u64{0}, bool may_doubt = false) {
    const Outcome closer = check_once(disk, false, true, hash_mask);
    const Outcome first = check_once(disk, false, false, hash_mask);
    EXPECT_EQ(first.failure.code, closer.failure.code) << first.failure.message;
    EXPECT_EQ(first.lines, closer.lines) << closer.all();
    EXPECT_EQ(first.result.inodes, closer.result.inodes);
    EXPECT_EQ(first.result.directories, closer.result.directories);
    EXPECT_EQ(first.result.blocks_used, closer.result.blocks_used);
    EXPECT_EQ(first.result.note, "");
    if (closer.failure.code != Errc::ok || may_doubt) return closer;
    EXPECT_EQ(first.result.was_full, closer.result.problems > 0) << closer.all();
    return closer;
}

}  // namespace warren::test
