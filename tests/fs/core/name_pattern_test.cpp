// SPDX-License-Identifier: Apache-2.0
// Patterns of names against fnmatch(3), with random patterns and names over few letters, so that
// many match.
#include "fs/core/name_pattern.hpp"

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <string>

#include "base/random.hpp"

namespace warren::core::name_pattern_test {
namespace {

bool is_match(const std::string& pattern, const std::string& name, bool folds_case = false) {
    return matches({pattern.data(), static_cast<u32>(pattern.size()), folds_case}, name.data(),
                   static_cast<u32>(name.size()));
}

TEST(NamePattern, Examples) {
    EXPECT_TRUE(is_match("*.o", "a.o"));
    EXPECT_TRUE(is_match("*", ""));
    EXPECT_TRUE(is_match("a*b*c", "aXbbYc"));
    EXPECT_FALSE(is_match("a*b*c", "aXbbY"));
    EXPECT_TRUE(is_match("[a-c]?", "bz"));
    EXPECT_TRUE(is_match("[!a-c]", "d"));
    EXPECT_TRUE(is_match("[]x]", "]"));
    EXPECT_FALSE(is_match("[a-c]", "d"));
    EXPECT_TRUE(is_match("\\*", "*"));
    EXPECT_FALSE(is_match("\\*", "a"));
    EXPECT_TRUE(is_match("readME", "README", true));
    EXPECT_FALSE(is_match("readME", "README"));
    EXPECT_TRUE(is_match("[ab", "[ab"));
}

TEST(NamePattern, ManyStarsEndSoon) {
    std::string pattern;
    for (u32 i = 0; i < 100; ++i)
        pattern += "a*";
    EXPECT_FALSE(is_match(pattern + "b", std::string(255, 'a')));
}

TEST(NamePattern, AgreesWithFnmatch) {
    Random random(7);
    const std::string pattern_letters = "ab*?[]-!B";
    const std::string name_letters = "abB]-";
    u32 matched = 0;
    for (u32 round = 0; round < 300'000; ++round) {
        std::string pattern;
        std::string name;
        for (u64 i = random.below(7); i > 0; --i)
            pattern += pattern_letters[random.below(pattern_letters.size())];
        for (u64 i = random.below(6); i > 0; --i)
            name += name_letters[random.below(name_letters.size())];
        const bool folds_case = random.below(2) == 0 && pattern.find('[') == std::string::npos;
        // No standard defines a range from a higher to a lower byte, or a set without an end.
        const std::size_t set = pattern.find('[');
        const bool is_odd =
            set != std::string::npos && (pattern.find(']', set + 2) == std::string::npos ||
                                         pattern.find('-') != std::string::npos ||
                                         pattern.find('[', set + 1) != std::string::npos);
        if (is_odd) continue;
        const bool wanted =
            ::fnmatch(pattern.c_str(), name.c_str(), folds_case ? FNM_CASEFOLD : 0) == 0;
        ASSERT_EQ(is_match(pattern, name, folds_case), wanted)
            << "'" << pattern << "' '" << name << "' " << folds_case;
        matched += wanted ? 1 : 0;
    }
    EXPECT_GT(matched, 10'000u);
}

}  // namespace
}  // namespace warren::core::name_pattern_test
