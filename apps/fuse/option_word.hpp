// SPDX-License-Identifier: Apache-2.0
// A word that a command accepts besides its options (after `mount -o`, or in an expression of
// find), as help pages, manual pages and completions show it.
#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace warren {

/// Returns the names of the accepted values.
using Choices = std::vector<std::string_view> (*)();

template <const auto& names>
std::vector<std::string_view> names_of() {
    return {std::begin(names), std::end(names)};
}

/// The names for use in a sentence: "a, b or c".
inline std::string listed(const std::vector<std::string_view>& names) {
    std::string text;
    for (size_t index = 0; index < names.size(); ++index) {
        text += index == 0 ? "" : index + 1 == names.size() ? " or " : ", ";
        text += names[index];
    }
    return text;
}

struct OptionWord {
    const char* name;   // if it ends in '=' the value follows at once, else as the next word
    const char* value;  // the placeholder; null: no value, or one of `choices`
    const char* help;   // null: accepted without effect
    Choices choices = nullptr;
};

/// The word with its value: "commit=SECONDS", "-name GLOB", "data=ordered|journal".
inline std::string word_label(const OptionWord& word) {
    std::string label = word.name;
    if (word.value == nullptr && word.choices == nullptr) return label;
    if (!label.ends_with('=')) label += ' ';
    if (word.value != nullptr) return label + word.value;
    for (const std::string_view choice : word.choices())
        label += std::string(label.back() == '=' || label.back() == ' ' ? "" : "|") += choice;
    return label;
}

}  // namespace warren
