// SPDX-License-Identifier: Apache-2.0
// Words to type are bold; placeholders, which are in capital letters, are in italics.
#include "apps/warren/roff_page.hpp"

#include <warren/version.h>

#include <algorithm>
#include <cctype>

namespace warren::cli {

namespace {

/// Escapes what is special to roff. A word in `backquotes` becomes bold.
std::string roff_text(std::string_view text) {
    std::string result;
    bool is_bold = false;
    for (const char letter : text) {
        if (letter == '`') {
            result += is_bold ? "\\fR" : "\\fB";
            is_bold = !is_bold;
        } else if (letter == '\\') {
            result += "\\e";
        } else if (letter == '-') {
            result += "\\-";
        } else if (letter == '\'') {
            result += "\\(aq";
        } else if (letter == '~') {
            result += "\\(ti";
        } else if (letter == '^') {
            result += "\\(ha";
        } else {
            const bool begins_line = result.empty() || result.back() == '\n';
            if (letter == '.' && begins_line) result += "\\&";
            result += letter;
        }
    }
    return result;
}

/// Text to type, with placeholders in italics.
std::string typed(std::string_view text) {
    std::string result = "\\fB";
    while (!text.empty()) {
        const auto is_word = [](char letter) {
            return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
        };
        const auto end = std::find_if_not(text.begin(), text.end(), is_word);
        const auto word = text.substr(0, static_cast<size_t>(end - text.begin()));
        const bool is_name =
            !word.empty() &&
            std::ranges::none_of(word,
                                 [](char letter) {
                                     return std::islower(static_cast<unsigned char>(letter)) != 0;
                                 }) &&
            std::isupper(static_cast<unsigned char>(word[0])) != 0 && !result.ends_with("\\-");
        if (is_name) {
            result += "\\fI" + std::string(word) + "\\fB";
        } else {
            result += word;
        }
        text.remove_prefix(word.size());
        const auto next = static_cast<size_t>(std::ranges::find_if(text, is_word) - text.begin());
        result += roff_text(text.substr(0, next));
        text.remove_prefix(next);
    }
    return result + "\\fR";
}

std::string upper(std::string_view name) {
    std::string result(name);
    std::ranges::transform(result, result.begin(), [](unsigned char letter) {
        return static_cast<char>(std::toupper(letter));
    });
    return result;
}

/// "-s, --size=SIZE".
std::string roff_label(const Option& option) {
    std::string label;
    if (option.id < 256) label = typed(std::string("-") + static_cast<char>(option.id));
    if (option.name != nullptr) {
        label += label.empty() ? "" : ", ";
        label += typed("--" + std::string(option.name));
    }
    if (option.value == nullptr) return label;
    if (!is_optional(option)) label += option.name != nullptr ? "=" : " ";
    return label + typed(option.value);
}

}  // namespace

ManualPage::ManualPage(const std::string& name, int section, std::string_view purpose) {
    text_ = ".\\\" Made by `warren --manual` from the tables of options.\n.TH \"" +
            roff_text(upper(name)) + "\" " + std::to_string(section) +
            " \"\" \"Warren " WARREN_VERSION "\" \"Warren\"\n.nh\n.ad l\n";
    heading("NAME");
    text_ += roff_text(name) + " \\- " + roff_text(purpose) + "\n";
}

void ManualPage::heading(std::string_view name) {
    text_ += ".SH " + upper(name) + "\n";
}

void ManualPage::subheading(std::string_view name) {
    text_ += ".SS " + roff_text(name) + "\n";
}

void ManualPage::begin_paragraph() {
    const size_t line = text_.rfind('\n', text_.size() - 2) + 1;
    if (!text_.substr(line).starts_with(".S")) text_ += ".PP\n";
}

void ManualPage::paragraphs(std::string_view text) {
    while (true) {
        const size_t end = text.find("\n\n");
        begin_paragraph();
        text_ += roff_text(text.substr(0, end)) + "\n";
        if (end == std::string_view::npos) return;
        text.remove_prefix(end + 2);
    }
}

void ManualPage::entry_of(const std::string& roff_label, std::string_view meaning) {
    text_ += ".TP\n" + roff_label + "\n" + roff_text(meaning) + "\n";
}

void ManualPage::entry(std::string_view label, std::string_view meaning) {
    entry_of("\\fB" + roff_text(label) + "\\fR", meaning);
}

void ManualPage::lines(std::string_view text) {
    begin_paragraph();
    text_ += ".nf\n";
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        text_ += roff_text(text.substr(0, end)) + "\n";
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    text_ += ".fi\n";
}

void ManualPage::synopsis(const Page& page, const std::string& program) {
    heading("SYNOPSIS");
    std::string_view usage = page.usage;
    for (const char* before = ""; !usage.empty(); before = ".br\n") {
        const size_t end = std::min(usage.find('\n'), usage.size());
        text_ += before + typed(program) + " " + typed(usage.substr(0, end)) + "\n";
        usage.remove_prefix(std::min(end + 1, usage.size()));
    }
}

void ManualPage::options(const Page& page) {
    heading("OPTIONS");
    std::string silent;
    for (const Option& option : all_options(page)) {
        if (option.help != nullptr) {
            entry_of(roff_label(option), help_of(option));
        } else {
            silent += (silent.empty() ? "" : ", ") + roff_label(option);
        }
    }
    if (!silent.empty()) {
        text_ += ".PP\nAlso accepted, for callers of the program that this one stands in for:\n" +
                 silent + ".\n";
    }
}

void ManualPage::section(const Section& section) {
    heading(section.heading);
    std::string silent;
    for (const OptionWord& word : section.words) {
        if (word.help != nullptr) {
            entry_of(typed(word_label(word)), word.help);
        } else {
            silent += (silent.empty() ? "" : ", ") + typed(word_label(word));
        }
    }
    if (!silent.empty()) text_ += ".PP\nAlso accepted, without effect:\n" + silent + ".\n";
}

void ManualPage::exits(const Page& page) {
    heading("EXIT STATUS");
    for (const ExitCode& exit : page.exits)
        entry(exit.code, exit.meaning);
    if (page.exits.empty()) {
        entry("0", "success");
        entry(std::to_string(page.usage_exit), "something failed, or the call made no sense");
    }
    const bool can_resume = std::ranges::any_of(page.options, [](const Option& option) {
        return option.name != nullptr && std::string_view(option.name) == "checkpoint";
    });
    if (can_resume) entry_of(typed("128+N"), "interrupted by signal N");
}

void ManualPage::environment(const Page& page) {
    if (!page.opens_images && !page.chooses_processor) return;
    heading("ENVIRONMENT");
    entry("WARREN_ENGINE", "what --engine is where it is not given");
}

void ManualPage::see_also(const std::vector<std::string>& pages) {
    heading("SEE ALSO");
    std::string line;
    for (const std::string& page : pages) {
        const size_t bracket = page.find('(');
        line += (line.empty() ? "\\fB" : ",\n\\fB") + roff_text(page.substr(0, bracket)) + "\\fR" +
                page.substr(bracket);
    }
    text_ += line + "\n";
}

}  // namespace warren::cli
