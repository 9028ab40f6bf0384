// SPDX-License-Identifier: Apache-2.0
// warren find: the engine's scan with the expressions of find(1).
#include <algorithm>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/engine_choice.hpp"
#include "apps/warren/find_expression.hpp"
#include "apps/warren/find_host.hpp"
#include "apps/warren/find_words.hpp"
#include "apps/warren/listing.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"

namespace warren::cli {

namespace {

constexpr size_t flush_size = 64 * kib;

constexpr Option find_options[] = {
    {'s', "sorted", nullptr,
     "sort by the bytes of the paths (default: in the order in which threads find them)"},
    {json_option, "json", nullptr, "print an array of objects instead of paths"},
    {'H', nullptr, nullptr, "follow symbolic links among the starts"},
    {'L', nullptr, nullptr, "follow all symbolic links; report loops"},
    {'P', nullptr, nullptr, "follow no symbolic links (default)"},
    WARREN_WALK_OPTIONS,
    WARREN_CHECKPOINT_OPTIONS,
};

constexpr Page find_page = {
    .usage = "[-H|-L|-P] [-s] [--json] [START]... [EXPRESSION]",
    .summary =
        "Search trees, on all cores: IMAGE:/path inside a volume that is not mounted, or any path "
        "of the host.",
    .options = find_options,
    .sections = find_sections,
    .notes =
        "-lname, -samefile, -readable, -writable, -executable, -depth, -exec and -delete work "
        "only on files of the host.",
    .examples =
        "  warren find v.img:/ -name '*.o' -size +1M\n"
        "  warren find /mnt/w -type f -newer stamp -print0 | xargs -0 ls -l\n"
        "  warren find v.img:/ -type d -empty\n"
        "  warren find /data -name '*.tmp' -mtime +7 -delete",
    .see_also = "find(1)",
    .opens_images = true,
};

/// The matches of one thread that are not printed yet, and the path of its current directory.
struct Collected {
    const DirectoryRecord* directory = nullptr;
    std::string directory_path;
    std::string text;
    std::string unsent;  // of the list, not sent yet
};

class Search {
 public:
    Search(Session& session, const Expression& expression, FoundList& list)
        : session_(session), expression_(expression), list_(list) {}

    bool run(const std::string& start);

 private:
    bool visit(TreeScan& scan, const Found& found, PerThread<Collected>& threads);

    Session& session_;
    const Expression& expression_;
    FoundList& list_;
};

const std::string& cached_path(Collected& mine, const DirectoryRecord* directory) {
    if (mine.directory != directory) {
        mine.directory = directory;
        mine.directory_path = path_of(*directory);
    }
    return mine.directory_path;
}

std::string object_of(const Found& found, const std::string& path) {
    Json json;
    json.open_object().member("path", std::string_view(path));
    json.member("depth", u64{found.depth});
    add_attributes(json, found.attributes());
    return json.close_object().result();
}

/// Answers questions about files of a volume.
class VolumePlace : public FindPlace {
 public:
    VolumePlace(TreeScan& scan, Collected& mine) : scan_(scan), mine_(mine) {}
    bool is_empty(const Found& found) override { return scan_.is_empty(found); }
    const std::string& path(const Found& found) override {
        path_ = found.directory == nullptr
                    ? std::string(found.name)
                    : joined(cached_path(mine_, found.directory), found.name);
        return path_;
    }

 private:
    TreeScan& scan_;
    Collected& mine_;
    std::string path_;
};

bool Search::visit(TreeScan& scan, const Found& found, PerThread<Collected>& threads) {
    Collected& mine = threads.local();
    VolumePlace place(scan, mine);
    Verdict verdict;
    expression_.evaluate(found, place, verdict);
    // If the list cannot be kept, end_of_tree() reports it.
    if (list_.is_json()) {
        if (!verdict.selected) return !verdict.prune;
        const std::string& path = place.path(found);
        static_cast<void>(list_.add(path, object_of(found, path), mine.unsent));
        return !verdict.prune;
    }
    if (verdict.selected && !expression_.has_action() && !verdict.quit) {
        append_masked_name(verdict.output, place.path(found));
        verdict.output += '\n';
    }
    if (verdict.output.empty()) return !verdict.prune;
    if (list_.is_sorted()) {
        static_cast<void>(list_.add(place.path(found), verdict.output, mine.unsent));
    } else {
        mine.text += verdict.output;
        if (mine.text.size() >= flush_size) {
            print_bytes(mine.text);
            mine.text.clear();
        }
    }
    return !verdict.prune;
}

bool Search::run(const std::string& start) {
    const auto scan = TreeScan::open(session_, parse_location(start), "find(1)");
    if (!scan) return false;
    PerThread<Collected> threads;
    Errc code = Errc::ok;
    {
        Progress progress("searching " + quote(start));
        code = scan->run(
            expression_.max_depth(),
            [&](const Found& found) {
                progress.add(1, 0);
                return visit(*scan, found, threads);
            },
            expression_.filter());
    }
    for (const auto& each : threads.all()) {
        print_bytes(each->text);
        list_.send(each->unsent);
    }
    const bool is_listed = list_.end_of_tree();
    if (code != Errc::ok) complain({quote(start), ": ", reason(code)});
    return code == Errc::ok && is_listed;
}

bool begins_expression(std::string_view word) {
    return (word.starts_with('-') && word.size() > 1) || word == "(" || word == ")" ||
           word == "!" || word == ",";
}

struct Asked {
    bool sorted = false;
    bool json = false;
    bool help = false;
    std::optional<std::string> engine;
    WalkSetup setup;
    std::vector<std::string> starts;
    std::vector<std::string> expression;
};

/// Checks the checkpoint options.
bool take_checkpoints(const Asked& asked, WalkSetup& setup) {
    if (setup.options.checkpoint.empty()) return take_checkpoint({}, 1, setup);
    if (asked.sorted || asked.json) {
        complain({"--checkpoint cannot be combined with --sorted or --json"});
        return false;
    }
    std::vector<std::string> words;
    if (setup.options.follow != walk::Follow::none) {
        words.push_back(setup.options.follow == walk::Follow::all ? "-L" : "-H");
    }
    for (const std::string& start : asked.starts) {
        words.push_back(quote(start));
        if (!parse_location(start).in_image()) continue;
        complain({quote(start), " lies in a volume: --checkpoint is for files of the host"});
        return false;
    }
    for (const std::string& word : asked.expression)
        words.push_back(quote(word));
    return take_checkpoint(words, asked.starts.size(), setup);
}

/// The option with this name, in any of its forms; null if there is none.
const Option* option_called(std::span<const Option> known, std::string_view name) {
    const auto found = std::ranges::find_if(known, [&](const Option& one) {
        const bool is_letter = name.size() == 2 && name[1] == one.id;
        return is_letter || (one.name != nullptr && name == "--" + std::string(one.name));
    });
    return found == known.end() ? nullptr : &*found;
}

bool take_option(const Option& option, const std::string& value, Asked& asked) {
    if (is_walk_option(option.id)) return asked.setup.take(option.id, value);
    if (option.id == 's') asked.sorted = true;
    if (option.id == json_option) asked.json = true;
    if (option.id == help_option) asked.help = true;
    if (option.id == engine_option) asked.engine = value;
    if (option.id == 'L') asked.setup.options.follow = walk::Follow::all;
    if (option.id == 'H') asked.setup.options.follow = walk::Follow::roots;
    if (option.id == 'P') asked.setup.options.follow = walk::Follow::none;
    return true;
}

/// Takes the options out of the expression. They are parsed here because getopt would read -name as
/// -n -a -m -e.
bool parse_options(std::vector<std::string> words, Asked& asked) {
    const std::vector<Option> known = all_options(find_page);
    std::vector<std::string> rest;
    for (size_t at = 0; at < words.size(); ++at) {
        const std::string& word = words[at];
        const size_t equals = word.find('=');
        const Option* option =
            word.starts_with('-') ? option_called(known, word.substr(0, equals)) : nullptr;
        const bool is_for_links =
            option != nullptr && (option->id == 'L' || option->id == 'H' || option->id == 'P');
        const bool has_value = option != nullptr && option->value != nullptr;
        if (option == nullptr || (is_for_links && !rest.empty()) ||
            (equals != word.npos && !has_value)) {
            rest.push_back(word);
            continue;
        }
        if (has_value && equals == word.npos && at + 1 == words.size()) {
            complain({quote(word), " needs a value"});
            return false;
        }
        const std::string value = !has_value            ? ""
                                  : equals == word.npos ? words[++at]
                                                        : word.substr(equals + 1);
        if (!take_option(*option, value, asked)) return false;
    }
    const auto first = std::find_if(rest.begin(), rest.end(), begins_expression);
    asked.starts.assign(rest.begin(), first);
    if (asked.starts.empty()) asked.starts = {"."};
    asked.expression.assign(first, rest.end());
    return take_checkpoints(asked, asked.setup) &&
           choose_engine(asked.engine ? &*asked.engine : nullptr);
}

int command_find(std::span<char* const> arguments) {
    Asked asked;
    if (!parse_options({arguments.begin() + 1, arguments.end()}, asked)) return 1;
    if (asked.help) {
        char help[] = "--help";
        char* const words[] = {arguments[0], help};
        return parse_arguments(find_page, words).exit_code;
    }
    Session session;
    const auto facts_of = [&](const std::string& text) -> std::optional<Facts> {
        const Location location = parse_location(text);
        const std::shared_ptr<Directory> base = session.directory(location, Access::read);
        if (!base) return {};
        const Result<Facts> facts = base->stat(location.path, Follow::yes);
        if (facts) return *facts;
        complain({quote(text), ": ", reason(facts.code()), missing_hint(location)});
        return {};
    };
    const auto expression = Expression::parse(asked.expression, facts_of);
    // A file that -newer names may be missing on another rank's machine.
    const auto everywhere = gather_over_ranks(expression ? "good" : "");
    const bool is_good = std::none_of(everywhere.begin(), everywhere.end(),
                                      [](const std::string& of_rank) { return of_rank.empty(); });
    if (!is_good) {
        remark({"Try '", program(), " --help' for more information."});
        return 1;
    }
    raise_open_limit();
    const bool in_order = asked.sorted || asked.json;
    if (spans_one_rank(in_order, asked.starts) && asked.setup.leave_to_rank_0()) return 0;
    FoundList list(asked.sorted, asked.json, asked.setup.list_bytes);
    Search search(session, *expression, list);
    HostSearch host(*expression, asked.setup, list);
    if (!host.begin()) return 1;
    bool good = true;
    // What only a walk over files of the host can do.
    std::string of_host(expression->needs_host());
    if (asked.setup.options.follow != walk::Follow::none) {
        of_host = asked.setup.options.follow == walk::Follow::all ? "-L" : "-H";
    }
    for (const std::string& start : asked.starts) {
        if (!of_host.empty() && parse_location(start).in_image()) {
            complain(
                {quote(start), ": ", of_host, " works on files of the host, not inside a volume"});
            good = false;
        } else if (!of_host.empty() || !is_of_volume(start)) {
            if (!host.run(start)) break;
        } else if (!search.run(start)) {
            good = false;
        }
    }
    if (host.was_interrupted()) return exit_interrupted(asked.setup);
    if (!host.finish()) good = false;
    list.close();
    return session.close() && good ? 0 : 1;
}

}  // namespace

const Command find_command = {"find", "search a tree", find_page, command_find, true};

}  // namespace warren::cli
