// SPDX-License-Identifier: Apache-2.0
// getopt_long does the parsing and prints its own error messages; this file converts the table for
// it.
#include "apps/warren/arguments.hpp"

#include <getopt.h>

#include <algorithm>

#include "apps/warren/engine_choice.hpp"
#include "apps/warren/help_page.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"

namespace warren::cli {

namespace {

struct GetoptTables {
    std::string letters;
    std::vector<option> names;
};

GetoptTables make_tables(const Page& page) {
    GetoptTables tables;
    if (page.stop_at_operand) tables.letters = "+";
    for (const Option& entry : all_options(page)) {
        const int has_value = is_optional(entry)       ? optional_argument
                              : entry.value != nullptr ? required_argument
                                                       : no_argument;
        if (entry.id < 256) {
            tables.letters += static_cast<char>(entry.id);
            if (has_value == required_argument) tables.letters += ':';
        }
        if (entry.name != nullptr)
            tables.names.push_back({entry.name, has_value, nullptr, entry.id});
    }
    tables.names.push_back({nullptr, 0, nullptr, 0});
    return tables;
}

}  // namespace

bool is_optional(const Option& option) {
    return option.value != nullptr && std::string_view(option.value).starts_with("[=");
}

ValueKind value_kind(const Option& option) {
    if (option.value == nullptr) return ValueKind::none;
    const std::string_view value = option.value;
    if (option.choices != nullptr) {
        const bool takes_several = value == "LIST" || value == "[=LIST]" || value == "OPTIONS";
        return takes_several ? ValueKind::list : ValueKind::choice;
    }
    if (value == "FILE") return ValueKind::file;
    return value == "DIRECTORY" || value == "FOLDER" ? ValueKind::directory : ValueKind::text;
}

std::string help_of(const Option& option) {
    std::string help = option.help;
    const size_t mark = option.choices == nullptr ? help.npos : help.find("{}");
    if (mark != help.npos) help.replace(mark, 2, listed(option.choices()));
    return help;
}

std::vector<Option> all_options(const Page& page) {
    std::vector<Option> options(page.options.begin(), page.options.end());
    if (page.opens_images || page.chooses_processor) {
        options.push_back({engine_option, "engine", "ENGINE",
                           page.chooses_processor
                               ? "processor that computes: {} (default: $WARREN_ENGINE, else auto)"
                               : "engine for images: {} (default: $WARREN_ENGINE, else auto)",
                           names_of<engine_names>});
    }
    options.push_back({help_option, "help", nullptr, "show this page"});
    return options;
}

bool Arguments::has(int id) const {
    return value(id) != nullptr;
}

int Arguments::last_of(std::initializer_list<int> ids) const {
    for (auto entry = options.rbegin(); entry != options.rend(); ++entry) {
        if (std::find(ids.begin(), ids.end(), entry->first) != ids.end()) return entry->first;
    }
    return 0;
}

const std::string* Arguments::value(int id) const {
    for (auto entry = options.rbegin(); entry != options.rend(); ++entry) {
        if (entry->first == id) return &entry->second;
    }
    return nullptr;
}

Arguments parse_arguments(const Page& page, std::span<char* const> arguments) {
    std::string name = program();
    std::vector<char*> words(arguments.begin(), arguments.end());
    words[0] = name.data();
    words.push_back(nullptr);
    const int count = static_cast<int>(words.size()) - 1;
    const GetoptTables tables = make_tables(page);

    Arguments parsed;
    optind = 0;  // glibc: reinitialise getopt
    // getopt_long prints an unknown option unmasked, and the word may be a file name from a shell's
    // *.
    const bool is_plain = std::ranges::all_of(arguments, [](std::string_view word) {
        return !word.starts_with('-') || masked(word) == word;
    });
    opterr = rank_number() == 0 && is_plain ? 1 : 0;
    while (true) {
        const int id =
            getopt_long(count, words.data(), tables.letters.c_str(), tables.names.data(), nullptr);
        if (id == -1) break;
        if (id == '?') {
            if (!is_plain)
                complain({"wrong option ", quote(words[static_cast<size_t>(optind - 1)])});
            remark({"Try '", program(), " --help' for more information."});
            parsed.done = true;
            parsed.exit_code = page.usage_exit;
            return parsed;
        }
        if (id == help_option) {
            if (rank_number() == 0) print_bytes(help_page(page, program()));
            parsed.done = true;
            return parsed;
        }
        parsed.options.emplace_back(id, optarg != nullptr ? optarg : "");
    }
    for (int index = optind; index < count; ++index) {
        parsed.operands.emplace_back(words[static_cast<size_t>(index)]);
    }
    if ((page.opens_images || page.chooses_processor) &&
        !choose_engine(parsed.value(engine_option))) {
        parsed.done = true;
        parsed.exit_code = page.usage_exit;
    }
    return parsed;
}

std::string option_for_host(const Page& page, const Arguments& parsed) {
    for (const Option& option : page.options) {
        const bool is_for_host =
            option.help != nullptr && std::string_view(option.help).starts_with("host only");
        if (!is_for_host || !parsed.has(option.id)) continue;
        return option.name == nullptr ? std::string{'-', static_cast<char>(option.id)}
                                      : std::string("--") + option.name;
    }
    return "";
}

int usage_error(const Page& page, std::initializer_list<std::string_view> parts) {
    complain(parts);
    remark({"Try '", program(), " --help' for more information."});
    return page.usage_exit;
}

bool need_operand(const Arguments& parsed) {
    if (!parsed.operands.empty()) return true;
    complain({"missing operand"});
    remark({"Try '", program(), " --help' for more information."});
    return false;
}

}  // namespace warren::cli
