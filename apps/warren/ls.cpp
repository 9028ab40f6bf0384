// SPDX-License-Identifier: Apache-2.0
// warren ls: lists names sorted by their bytes, one a line or in columns on a terminal.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/listing.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/units.hpp"

namespace warren::cli {

namespace {

constexpr int full_time_option = 256;

constexpr Option ls_options[] = {
    {'1', nullptr, nullptr, "print one name per line (default unless on a terminal)"},
    {'a', "all", nullptr, "include names that begin with a dot"},
    {'A', "almost-all", nullptr, "the same, except '.' and '..'"},
    {'d', "directory", nullptr, "list directories themselves, not their contents"},
    {'F', "classify", nullptr, "append a type indicator to each name: / @ | = *"},
    {'h', "human-readable", nullptr, "with -l: print sizes like 4.0K, 12M"},
    {'i', "inode", nullptr, "print the inode number of each file"},
    {'l', nullptr, nullptr, "print mode, links, owner, group, size and time of each file"},
    {'n', "numeric-uid-gid", nullptr, "like -l, with numeric owner and group"},
    {'r', "reverse", nullptr, "reverse the order"},
    {'R', "recursive", nullptr, "list subdirectories recursively"},
    {'S', nullptr, nullptr, "sort by size, largest first"},
    {'t', nullptr, nullptr, "sort by time, newest first"},
    {'U', nullptr, nullptr, "do not sort; list in directory order"},
    {full_time_option, "full-time", nullptr, "like -l, with the full time"},
    {json_option, "json", nullptr, "print an array of objects"},
};

constexpr Page ls_page = {
    .usage = "[OPTION]... [FILE]...",
    .summary =
        "List files: IMAGE:/path inside a volume that is not mounted, or a path of the host (the "
        "current directory by default).",
    .options = ls_options,
    .examples =
        "  warren ls v.img:/              names at the root\n"
        "  warren ls -lh v.img:/src       with sizes and times\n"
        "  warren ls --json v.img:/src    for a script",
    .see_also = "ls(1)",
    .usage_exit = 2,
    .opens_images = true,
};

struct Style {
    bool all = false;
    bool dots = false;
    bool directory_itself = false;
    bool classify = false;
    bool human = false;
    bool inode = false;
    bool lines = false;  // -l
    bool numeric = false;
    bool reverse = false;
    bool recursive = false;
    bool full_time = false;
    bool json = false;
    bool columns = false;
    int order = 0;  // 'S', 't', 'U' or 0
    bool needs_facts() const { return lines || inode || classify || json || recursive || order; }
};

struct ListedItem {
    std::string name;
    Facts facts;
    std::string target;  // of a symbolic link
};

class Lister {
 public:
    Lister(const Style& style, bool headings) : style_(style), headings_(headings) {
        if (style_.json) json_.open_array();
    }

    void list_files(std::vector<ListedItem>& items) {
        if (items.empty()) return;
        print_items(items, "");
        first_ = false;
    }
    /// Lists the directory `name` of `start` and, if requested, those below it. Returns false after
    /// an error.
    bool list_tree(const std::shared_ptr<Directory>& start, const std::string& prefix,
                   const std::string& name);
    void finish() {
        if (!style_.json) return;
        json_.close_array();
        print_line({json_.result()});
    }

 private:
    bool list_one(Directory& directory, const std::string& path, std::vector<ListedItem>& items);
    void print_items(std::vector<ListedItem>& items, const std::string& directory);
    void print_long(const std::vector<ListedItem>& items);
    void print_columns(const std::vector<ListedItem>& items);
    void add_json(const std::vector<ListedItem>& items, const std::string& directory);
    /// The name with its type indicator; `aligned`: names without quotes get a blank in their
    /// place.
    std::string label(const ListedItem& item, bool aligned) const;

    Style style_;
    bool headings_;
    bool first_ = true;
    Json json_;
};

bool comes_before(const ListedItem& left, const ListedItem& right, int order) {
    const Attributes& a = left.facts.attributes;
    const Attributes& b = right.facts.attributes;
    if (order == 'S' && a.size != b.size) return a.size > b.size;
    if (order == 't' && a.modified != b.modified) return a.modified > b.modified;
    return left.name < right.name;
}

/// Whether any name is quoted, so that names without quotes begin with a blank.
bool some_quoted(const std::vector<ListedItem>& items) {
    return std::ranges::any_of(
        items, [](const ListedItem& item) { return output_name(item.name) != item.name; });
}

std::string Lister::label(const ListedItem& item, bool aligned) const {
    std::string text = output_name(item.name);
    if (aligned && text == item.name) text.insert(0, " ");
    if (!style_.classify) return text;
    const u32 mode = item.facts.attributes.mode;
    switch (type_letter(mode)) {
        case 'd':
            return text + "/";
        case 'l':
            return style_.lines ? text : text + "@";
        case 'p':
            return text + "|";
        case 's':
            return text + "=";
        default:
            return (mode & 0111) != 0 ? text + "*" : text;
    }
}

void Lister::print_long(const std::vector<ListedItem>& items) {
    std::vector<std::vector<std::string>> rows;
    std::vector<size_t> widths(6);
    for (const ListedItem& item : items) {
        const Attributes& a = item.facts.attributes;
        std::string size = style_.human ? short_size(a.size) : std::to_string(a.size);
        if (type_letter(a.mode) == 'b' || type_letter(a.mode) == 'c') {
            size = std::to_string(a.device >> 20) + ", " + std::to_string(a.device & 0xfffff);
        }
        rows.push_back({style_.inode ? std::to_string(a.handle.inode) : "", std::to_string(a.links),
                        style_.numeric ? std::to_string(a.user) : user_text(a.user),
                        style_.numeric ? std::to_string(a.group) : group_text(a.group), size,
                        style_.full_time ? full_time(a.modified) : short_time(a.modified)});
        for (size_t column = 0; column < widths.size(); ++column) {
            widths[column] = std::max(widths[column], rows.back()[column].size());
        }
    }
    std::string text;
    const bool aligned = some_quoted(items);
    for (size_t index = 0; index < items.size(); ++index) {
        const std::vector<std::string>& row = rows[index];
        auto right = [&](size_t column) {
            return std::string(widths[column] - row[column].size(), ' ') + row[column];
        };
        auto left = [&](size_t column) {
            return row[column] + std::string(widths[column] - row[column].size(), ' ');
        };
        if (style_.inode) text += right(0) + " ";
        text += mode_text(items[index].facts.attributes.mode) + " " + right(1) + " " + left(2) +
                " " + left(3) + " " + right(4) + " " + right(5) + " " +
                label(items[index], aligned);
        if (items[index].facts.is_link()) text += " -> " + output_name(items[index].target);
        text += '\n';
    }
    print_bytes(text);
}

/// As many columns as fit the terminal, filled from top to bottom.
void Lister::print_columns(const std::vector<ListedItem>& items) {
    winsize window{};
    size_t width = 80;
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        width = window.ws_col;
    std::vector<std::string> labels;
    size_t longest = 0;
    const bool aligned = some_quoted(items);
    for (const ListedItem& item : items) {
        std::string text =
            style_.inode ? std::to_string(item.facts.attributes.handle.inode) + " " : std::string();
        labels.push_back(text + label(item, aligned));
        longest = std::max(longest, labels.back().size() + 2);
    }
    const size_t columns = std::max<size_t>(1, width / longest);
    const size_t rows = (labels.size() + columns - 1) / columns;
    std::string text;
    for (size_t row = 0; row < rows; ++row) {
        for (size_t at = row; at < labels.size(); at += rows) {
            text += labels[at];
            if (at + rows < labels.size()) text.append(longest - labels[at].size(), ' ');
        }
        text += '\n';
    }
    print_bytes(text);
}

void Lister::add_json(const std::vector<ListedItem>& items, const std::string& directory) {
    for (const ListedItem& item : items) {
        json_.open_object();
        json_.member("name", std::string_view(item.name));
        json_.member(
            "path", std::string_view(directory.empty() ? item.name : joined(directory, item.name)));
        add_attributes(json_, item.facts.attributes);
        if (item.facts.is_link()) json_.member("target", std::string_view(item.target));
        json_.close_object();
    }
}

void Lister::print_items(std::vector<ListedItem>& items, const std::string& directory) {
    if (style_.order != 'U') {
        std::sort(items.begin(), items.end(), [&](const ListedItem& left, const ListedItem& right) {
            return style_.reverse ? comes_before(right, left, style_.order)
                                  : comes_before(left, right, style_.order);
        });
    }
    if (style_.json) {
        add_json(items, directory);
    } else if (style_.lines) {
        print_long(items);
    } else if (style_.columns && !items.empty()) {
        print_columns(items);
    } else {
        for (const ListedItem& item : items) {
            const std::string number = std::to_string(item.facts.attributes.handle.inode) + " ";
            print_line({style_.inode ? number : "", label(item, false)});
        }
    }
}

/// Reads and prints one directory; `items` receives what was printed.
bool Lister::list_one(Directory& directory, const std::string& path,
                      std::vector<ListedItem>& items) {
    std::vector<Name> names;
    if (const Errc code = directory.list(names); code != Errc::ok) {
        complain({"reading directory ", quote(path), ": ", reason(code)});
        return false;
    }
    if (style_.dots) {
        names.push_back({".", 0});
        names.push_back({"..", 0});
    }
    bool good = true;
    for (Name& name : names) {
        if (name.name.starts_with('.') && !style_.all) continue;
        ListedItem item{std::move(name.name), {}, {}};
        if (style_.needs_facts()) {
            const Result<Facts> facts = directory.stat(item.name, Follow::no);
            if (!facts) {
                complain(
                    {"cannot access ", quote(joined(path, item.name)), ": ", reason(facts.code())});
                good = false;
                continue;
            }
            item.facts = *facts;
            if (facts->is_link()) {
                static_cast<void>(directory.read_link(item.name, item.target));
            }
        }
        items.push_back(std::move(item));
    }
    if (!first_ && !style_.json) print_line({});
    if ((headings_ || style_.recursive) && !style_.json) print_line({output_name(path), ":"});
    first_ = false;
    print_items(items, path);
    return good;
}

bool Lister::list_tree(const std::shared_ptr<Directory>& start, const std::string& prefix,
                       const std::string& name) {
    struct Waiting {
        std::shared_ptr<Directory> above;
        std::string name;
        std::string path;
    };
    bool good = true;
    std::vector<Waiting> stack = {{start, name, prefix + name}};
    while (!stack.empty()) {
        const Waiting at = std::move(stack.back());
        stack.pop_back();
        std::shared_ptr<Directory> directory;
        const Follow follow = at.above == start ? Follow::yes : Follow::no;
        const Errc code = at.above->open_directory(at.name, follow, directory);
        std::vector<ListedItem> items;
        if (code != Errc::ok) {
            complain({"cannot open directory ", quote(at.path), ": ", reason(code)});
            good = false;
            continue;
        }
        if (!list_one(*directory, at.path, items)) good = false;
        if (!style_.recursive) continue;
        for (auto item = items.rbegin(); item != items.rend(); ++item) {
            if (!item->facts.is_directory() || item->name == "." || item->name == "..") continue;
            stack.push_back({directory, item->name, joined(at.path, item->name)});
        }
    }
    return good;
}

Style read_style(const Arguments& parsed) {
    Style style;
    style.all = parsed.has('a') || parsed.has('A');
    style.dots = parsed.last_of({'a', 'A'}) == 'a' && !parsed.has(json_option);
    style.directory_itself = parsed.has('d');
    style.classify = parsed.has('F');
    style.human = parsed.has('h');
    style.inode = parsed.has('i');
    style.numeric = parsed.has('n');
    style.full_time = parsed.has(full_time_option);
    style.lines = parsed.has('l') || style.numeric || style.full_time;
    style.reverse = parsed.has('r');
    style.recursive = parsed.has('R');
    style.json = parsed.has(json_option);
    style.order = parsed.last_of({'S', 't', 'U'});
    style.columns = prints_to_terminal() && !parsed.has('1');
    return style;
}

int command_ls(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(ls_page, arguments);
    if (parsed.done) return parsed.exit_code;
    const Style style = read_style(parsed);
    std::vector<std::string> operands = parsed.operands;
    if (operands.empty()) operands = {"."};
    std::sort(operands.begin(), operands.end());
    Session session;
    Lister lister(style, operands.size() > 1);
    std::vector<ListedItem> files;
    std::vector<std::pair<Location, std::shared_ptr<Directory>>> directories;
    bool good = true;
    for (const std::string& text : operands) {
        const Location location = parse_location(text);
        const std::shared_ptr<Directory> start = session.directory(location, Access::read);
        if (!start) {
            good = false;
            continue;
        }
        const Follow follow = style.lines || style.directory_itself ? Follow::no : Follow::yes;
        Result<Facts> facts = start->stat(location.path, follow);
        if (facts.code() == Errc::no_entry) facts = start->stat(location.path, Follow::no);
        if (!facts) {
            complain({"cannot access ", quote(text), ": ", reason(facts.code()),
                      missing_hint(location)});
            good = false;
        } else if (facts->is_directory() && !style.directory_itself) {
            directories.emplace_back(location, start);
        } else {
            files.push_back({text, *facts, {}});
            if (facts->is_link()) {
                static_cast<void>(start->read_link(location.path, files.back().target));
            }
        }
    }
    lister.list_files(files);
    for (const auto& [location, start] : directories) {
        if (!lister.list_tree(start, location.prefix(), location.path)) good = false;
    }
    lister.finish();
    return session.close() && good ? 0 : 2;
}

}  // namespace

const Command ls_command = {"ls", "list files", ls_page, command_ls};

}  // namespace warren::cli
