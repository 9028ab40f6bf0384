// SPDX-License-Identifier: Apache-2.0
// Builds a manual page in the macros of man(7), from top to bottom.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/arguments.hpp"

namespace warren::cli {

class ManualPage {
 public:
    ManualPage(const std::string& name, int section, std::string_view purpose);

    void heading(std::string_view name);
    void subheading(std::string_view name);
    /// Paragraphs separated by empty lines. Words in `backquotes` become bold.
    void paragraphs(std::string_view text);
    /// A word or option to type, and its meaning.
    void entry(std::string_view label, std::string_view meaning);
    /// Lines that are kept as they are.
    void lines(std::string_view text);

    void synopsis(const Page& page, const std::string& program);
    void options(const Page& page);
    void section(const Section& section);
    void exits(const Page& page);
    void environment(const Page& page);
    /// Names of pages, with their sections.
    void see_also(const std::vector<std::string>& pages);

    const std::string& text() const { return text_; }

 private:
    void begin_paragraph();
    void entry_of(const std::string& roff_label, std::string_view meaning);

    std::string text_;
};

}  // namespace warren::cli
