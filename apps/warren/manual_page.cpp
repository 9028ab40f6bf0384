// SPDX-License-Identifier: Apache-2.0
// The manual pages of the program, its commands, and the helpers for mount(8) and similar programs.
#include "apps/warren/manual_page.hpp"

#include <algorithm>

#include "apps/warren/roff_page.hpp"
#include "warren/volume_modes.hpp"

namespace warren::cli {

namespace {

std::vector<std::string> split(const char* list) {
    std::vector<std::string> words;
    std::string_view rest = list == nullptr ? "" : list;
    while (!rest.empty()) {
        const size_t end = std::min(rest.find(", "), rest.size());
        words.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 2, rest.size()));
    }
    return words;
}

/// The examples, with the command called `program`.
std::string examples_of(const Command& command, const std::string& program) {
    std::string text = command.page.examples;
    const std::string usual = "  warren " + std::string(command.name) + " ";
    for (size_t at = text.find(usual); at != text.npos; at = text.find(usual, at + 1))
        text.replace(at, usual.size(), "  " + program + " ");
    return text;
}

std::string manual_of(const Command& command, const std::string& name, const std::string& program,
                      int number, std::vector<std::string> related) {
    const Page& page = command.page;
    ManualPage manual(name, number, command.purpose);
    manual.synopsis(page, program);
    manual.heading("DESCRIPTION");
    manual.paragraphs(page.summary);
    if (page.notes != nullptr) manual.paragraphs(page.notes);
    manual.options(page);
    if (page.sections != nullptr) {
        for (const Section& section : page.sections())
            manual.section(section);
    }
    manual.exits(page);
    manual.environment(page);
    manual.heading("EXAMPLES");
    manual.lines(examples_of(command, program));
    for (std::string& other : split(page.see_also))
        related.push_back(std::move(other));
    manual.see_also(related);
    return manual.text();
}

}  // namespace

std::string command_manual(const Command& command) {
    const std::string name = command.name;
    std::vector<std::string> related = {"warren(1)"};
    for (const char* helper : command.helpers) {
        if (helper != nullptr) related.push_back(std::string(helper) + "(8)");
    }
    return manual_of(command, "warren-" + name, "warren " + name, 1, related);
}

std::string helper_manual(const Command& command, const std::string& helper) {
    const std::string name = command.name;
    return manual_of(command, helper, helper, 8, {"warren(1)", "warren-" + name + "(1)"});
}

std::string program_manual() {
    const Page& page = program_page;
    ManualPage manual("warren", 1, "volumes of the Warren file system, and bulk work on files");
    manual.synopsis(page, "warren");
    manual.heading("DESCRIPTION");
    manual.paragraphs(page.summary);
    manual.options(page);
    manual.heading("COMMANDS");
    std::vector<std::string> related;
    for (const CommandGroup& group : command_groups()) {
        manual.subheading(group.heading);
        for (const Command* command : group.commands) {
            manual.entry(command->name, command->purpose);
            related.push_back("warren-" + std::string(command->name) + "(1)");
        }
    }
    manual.exits(page);
    manual.heading("ENVIRONMENT");
    manual.entry("WARREN_ENGINE",
                 "what --engine is where it is not given: " + listed(names_of<engine_names>()));
    manual.entry("TMPDIR", "where lists go that are larger than --memory allows");
    manual.heading("EXAMPLES");
    manual.lines(page.examples);
    related.emplace_back("warren-format(5)");
    manual.see_also(related);
    return manual.text();
}

}  // namespace warren::cli
