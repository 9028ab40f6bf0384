// SPDX-License-Identifier: Apache-2.0
// The layout of a help page: words in a left column, their meaning in a right one.
#include "apps/warren/help_page.hpp"

#include <algorithm>

namespace warren::cli {

namespace {

constexpr size_t page_columns = 80;
constexpr size_t help_column = 28;

/// Appends the words of `text`, wrapped to lines of at most `page_columns`, indented by `indent`.
/// The page already is at column `indent`.
void append_wrapped(std::string& page, std::string_view text, size_t indent) {
    size_t column = indent;
    while (!text.empty()) {
        const size_t end = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (column > indent && column + 1 + word.size() > page_columns) {
            page += '\n';
            page.append(indent, ' ');
            column = indent;
        }
        if (column > indent) {
            page += ' ';
            ++column;
        }
        page += word;
        column += word.size();
    }
    page += '\n';
}

/// Appends paragraphs separated by empty lines.
void append_paragraphs(std::string& page, std::string_view text) {
    while (true) {
        const size_t end = text.find("\n\n");
        append_wrapped(page, text.substr(0, end), 0);
        if (end == std::string_view::npos) return;
        page += '\n';
        text.remove_prefix(end + 2);
    }
}

void append_entry(std::string& page, std::string label, std::string_view help, size_t column) {
    if (label.size() + 2 > column) {
        page += label + "\n";
        label.clear();
    }
    label.resize(column, ' ');
    page += label;
    append_wrapped(page, help, column);
}

std::string option_label(const Option& option) {
    std::string label =
        option.id < 256 ? std::string("  -") + static_cast<char>(option.id) : "    ";
    if (option.name != nullptr) {
        label += option.id < 256 ? ", --" : "  --";
        label += option.name;
    }
    if (option.value != nullptr) {
        if (!is_optional(option)) label += option.name != nullptr ? "=" : " ";
        label += option.value;
    }
    return label;
}

/// Appends all sections, with the meanings in one column.
void append_sections(std::string& page, const std::vector<Section>& sections) {
    size_t column = 0;
    for (const Section& section : sections) {
        for (const OptionWord& word : section.words) {
            if (word.help != nullptr) column = std::max(column, word_label(word).size() + 4);
        }
    }
    column = std::min(column, help_column);
    for (const Section& section : sections) {
        page += "\n" + std::string(section.heading) + ":\n";
        std::string silent;
        for (const OptionWord& word : section.words) {
            if (word.help != nullptr) {
                append_entry(page, "  " + word_label(word), word.help, column);
            } else {
                silent += silent.empty() ? "Also accepted, without effect: " : ", ";
                silent += word_label(word);
            }
        }
        if (!silent.empty()) append_wrapped(page, silent, 0);
    }
}

}  // namespace

std::string help_page(const Page& page, const std::string& name) {
    std::string text;
    std::string_view usage = page.usage;
    for (const char* head = "Usage: "; !usage.empty(); head = "   or: ") {
        const size_t end = std::min(usage.find('\n'), usage.size());
        text += head + name + " " + std::string(usage.substr(0, end)) + "\n";
        usage.remove_prefix(std::min(end + 1, usage.size()));
    }
    append_paragraphs(text, page.summary);
    text += "\nOptions:\n";
    for (const Option& option : all_options(page)) {
        if (option.help != nullptr)
            append_entry(text, option_label(option), help_of(option), help_column);
    }
    if (page.sections != nullptr) append_sections(text, page.sections());
    if (page.notes != nullptr) {
        text += "\n";
        append_paragraphs(text, page.notes);
    }
    if (!page.exits.empty()) text += "\nExit status:\n";
    for (const ExitCode& exit : page.exits)
        append_entry(text, std::string("  ") + exit.code, exit.meaning, 8);
    if (page.examples != nullptr) text += "\nExamples:\n" + std::string(page.examples) + "\n";
    return text;
}

}  // namespace warren::cli
