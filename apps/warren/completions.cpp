// SPDX-License-Identifier: Apache-2.0
// The part of the completions that is common to all shells.
#include "apps/warren/completions.hpp"

#include <algorithm>
#include <utility>

namespace warren::cli {

namespace {

CompletedWord completed_word(const Option& option, std::vector<std::string> spellings) {
    CompletedWord word = {
        .spellings = std::move(spellings),
        .help = help_of(option),
        .kind = value_kind(option),
        .is_optional = is_optional(option),
        .value = option.value == nullptr ? "" : option.value,
        .choices = "",
    };
    if (option.choices == nullptr) return word;
    for (const std::string_view choice : option.choices())
        word.choices += (word.choices.empty() ? "" : " ") + std::string(choice);
    return word;
}

}  // namespace

std::vector<CompletedWord> completed_words(const Page& page) {
    std::vector<CompletedWord> words;
    for (const Option& option : all_options(page)) {
        if (option.help == nullptr) continue;
        std::vector<std::string> spellings;
        if (option.id < 256) spellings.push_back(std::string("-") + static_cast<char>(option.id));
        if (option.name != nullptr) spellings.push_back("--" + std::string(option.name));
        words.push_back(completed_word(option, std::move(spellings)));
    }
    if (page.sections == nullptr) return words;
    for (const Section& section : page.sections()) {
        for (const OptionWord& entry : section.words) {
            const std::string_view name = entry.name;
            const bool is_known = std::ranges::any_of(
                words, [&](const CompletedWord& word) { return word.spellings[0] == name; });
            if (entry.help == nullptr || !name.starts_with('-') || is_known) continue;
            const Option option = {0, nullptr, entry.value, entry.help, entry.choices};
            words.push_back(completed_word(option, {entry.name}));
        }
    }
    return words;
}

}  // namespace warren::cli
