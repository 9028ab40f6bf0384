// SPDX-License-Identifier: Apache-2.0
// getopt_long does the parsing and words its own complaints; this file feeds it the table and
// lays out the help page.
#include "apps/warren/arguments.hpp"

#include <getopt.h>

#include <algorithm>

#include "apps/warren/engine_choice.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"

namespace warren::cli {

namespace {

bool is_optional(const Option& option) {
    return option.value != nullptr && option.value[0] == '[';
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

/// Appends `text` from column `indent` on, each further line of it below the first.
void append_indented(std::string& page, std::string_view text, size_t indent) {
    while (true) {
        const size_t end = text.find('\n');
        page += text.substr(0, end);
        page += '\n';
        if (end == std::string_view::npos) return;
        text.remove_prefix(end + 1);
        page.append(indent, ' ');
    }
}

void append_options(std::string& page, const Page& description) {
    constexpr size_t column = 28;
    page += "\nOptions:\n";
    auto append = [&](const Option& option) {
        if (option.help == nullptr) return;
        std::string label = option_label(option);
        if (label.size() + 2 > column) {
            page += label + "\n";
            label.clear();
        }
        label.resize(column, ' ');
        page += label;
        append_indented(page, option.help, column);
    };
    for (const Option& option : description.options)
        append(option);
    if (description.chooses_processor) {
        append({engine_option, "engine", "ENGINE",
                "what computes: auto, cpu or cuda (default:\n$WARREN_ENGINE, auto)"});
    } else if (description.opens_images) {
        append({engine_option, "engine", "ENGINE",
                "what works on images: auto, cpu or cuda (default:\n$WARREN_ENGINE, auto)"});
    }
    append({help_option, "help", nullptr, "show this page"});
}

void print_page(const Page& description) {
    if (rank_number() != 0) return;
    std::string page;
    std::string_view usage = description.usage;
    for (const char* head = "Usage: "; !usage.empty(); head = "   or: ") {
        const size_t end = std::min(usage.find('\n'), usage.size());
        page += head + program() + " " + std::string(usage.substr(0, end)) + "\n";
        usage.remove_prefix(std::min(end + 1, usage.size()));
    }
    page += std::string(description.summary) + "\n";
    append_options(page, description);
    if (description.notes != nullptr) page += "\n" + std::string(description.notes) + "\n";
    if (description.examples != nullptr) {
        page += "\nExamples:\n" + std::string(description.examples) + "\n";
    }
    print_bytes(page);
}

struct GetoptTables {
    std::string letters;
    std::vector<option> names;
};

GetoptTables make_tables(const Page& page) {
    GetoptTables tables;
    if (page.stop_at_operand) tables.letters = "+";
    for (const Option& entry : page.options) {
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
    if (page.opens_images || page.chooses_processor) {
        tables.names.push_back({"engine", required_argument, nullptr, engine_option});
    }
    tables.names.push_back({"help", no_argument, nullptr, help_option});
    tables.names.push_back({nullptr, 0, nullptr, 0});
    return tables;
}

}  // namespace

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
    optind = 0;  // glibc: start afresh
    // getopt_long writes an option into its complaint as it is, and a shell's * may have given it.
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
            print_page(page);
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
