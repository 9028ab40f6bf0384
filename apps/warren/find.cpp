// SPDX-License-Identifier: Apache-2.0
// warren find: the engine's scan with the expressions of find(1).
#include <algorithm>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/find_expression.hpp"
#include "apps/warren/listing.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"

namespace warren::cli {

namespace {

constexpr size_t flush_size = 64 * kib;

constexpr Option options[] = {
    {'s', "sorted", nullptr,
     "print in the order of the paths' bytes (default: as threads meet them)"},
    {json_option, "json", nullptr, "an array of objects in place of paths"},
};

constexpr Page page = {
    .usage = "[-s] [--json] [START]... [EXPRESSION]",
    .summary =
        "Search trees, on all cores: IMAGE:/path inside a volume that is not mounted, or a "
        "path on\na mounted volume.",
    .options = options,
    .notes =
        "Tests:    -name GLOB  -iname GLOB  -path GLOB  -type [fdlbcps]  -size [+-]N[cwbkMG]\n"
        "          -newer FILE  -mtime, -atime, -ctime [+-]DAYS  -mmin, -amin, -cmin [+-]MINUTES\n"
        "          -empty  -links [+-]N  -inum N  -user NAME  -group NAME  -uid N  -gid N\n"
        "          -perm [-/]MODE (octal)  -true\n"
        "Limits:   -maxdepth N  -mindepth N  -prune\n"
        "Actions:  -print  -print0  -printf FORMAT (%p %P %f %h %d %s %b %k %m %M %y %i %n %u %g\n"
        "          %U %G %t %T@ %T+ %Ts, the same with A and C, \\n \\t \\0)\n"
        "Joined by ( ) ! -not -a -and -o -or as in find(1).",
    .examples =
        "  warren find v.img:/ -name '*.o' -size +1M\n"
        "  warren find /mnt/w -type f -newer stamp -print0 | xargs -0 ls -l\n"
        "  warren find v.img:/ -type d -empty",
    .opens_images = true,
};

/// What one thread has found so far, and the path of the directory it is in.
struct Collected {
    const DirectoryRecord* directory = nullptr;
    std::string directory_path;
    std::string text;
    std::vector<std::pair<std::string, std::string>> sorted;  // path, output
    std::vector<std::string> objects;
};

class Search {
 public:
    Search(Session& session, const Expression& expression, bool sorted, bool json)
        : session_(session), expression_(expression), sorted_(sorted), json_(json) {}

    bool run(const std::string& start);
    void finish();

 private:
    bool visit(TreeScan& scan, const Found& found, PerThread<Collected>& threads);
    void gather(PerThread<Collected>& threads);

    Session& session_;
    const Expression& expression_;
    bool sorted_;
    bool json_;
    std::vector<std::string> objects_;
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
    add_attributes(json, found.attributes);
    return json.close_object().result();
}

bool Search::visit(TreeScan& scan, const Found& found, PerThread<Collected>& threads) {
    Collected& mine = threads.local();
    const Expression::Helper helper = {
        [&](const Found& entry) { return scan.is_empty(entry); },
        [&](const Found& entry) {
            if (entry.directory == nullptr) return std::string(entry.name);
            return joined(cached_path(mine, entry.directory), entry.name);
        },
    };
    Verdict verdict;
    expression_.evaluate(found, helper, verdict);
    const bool deep_enough = found.depth >= expression_.min_depth();
    const bool selected = verdict.selected && deep_enough;
    if (json_) {
        if (selected) mine.objects.push_back(object_of(found, helper.path(found)));
        return !verdict.prune;
    }
    if (selected && !expression_.has_action()) verdict.output += helper.path(found) + "\n";
    if (verdict.output.empty()) return !verdict.prune;
    if (sorted_) {
        mine.sorted.emplace_back(helper.path(found), std::move(verdict.output));
    } else {
        mine.text += verdict.output;
        if (mine.text.size() >= flush_size) {
            print_bytes(mine.text);
            mine.text.clear();
        }
    }
    return !verdict.prune;
}

void Search::gather(PerThread<Collected>& threads) {
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& each : threads.all()) {
        print_bytes(each->text);
        std::move(each->sorted.begin(), each->sorted.end(), std::back_inserter(all));
        std::move(each->objects.begin(), each->objects.end(), std::back_inserter(objects_));
    }
    std::sort(all.begin(), all.end());
    for (const auto& [path, output] : all)
        print_bytes(output);
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
    gather(threads);
    if (code != Errc::ok) complain({quote(start), ": ", reason(code)});
    return code == Errc::ok;
}

void Search::finish() {
    if (!json_) return;
    if (sorted_) std::sort(objects_.begin(), objects_.end());
    print_bytes("[");
    for (size_t index = 0; index < objects_.size(); ++index) {
        print_bytes(index == 0 ? "" : ",\n ");
        print_bytes(objects_[index]);
    }
    print_bytes("]\n");
}

bool begins_expression(std::string_view word) {
    return (word.starts_with('-') && word.size() > 1) || word == "(" || word == ")" || word == "!";
}

}  // namespace

int command_find(std::span<char* const> arguments) {
    std::vector<std::string> words(arguments.begin() + 1, arguments.end());
    bool sorted = false;
    bool json = false;
    // The options are words of their own here: getopt would take -name for -n -a -m -e.
    std::erase_if(words, [&](const std::string& word) {
        sorted = sorted || word == "-s" || word == "--sorted";
        json = json || word == "--json";
        return word == "-s" || word == "--sorted" || word == "--json";
    });
    if (std::find(words.begin(), words.end(), "--help") != words.end()) {
        char help[] = "--help";
        char* const asked[] = {arguments[0], help};
        return parse_arguments(page, asked).exit_code;
    }
    const auto first = std::find_if(words.begin(), words.end(), begins_expression);
    std::vector<std::string> starts(words.begin(), first);
    if (starts.empty()) starts = {"."};
    Session session;
    const auto time_of = [&](const std::string& text) -> std::optional<i64> {
        const Location location = parse_location(text);
        const std::shared_ptr<Directory> base = session.directory(location, Access::read);
        if (!base) return {};
        const Result<Facts> facts = base->stat(location.path, Follow::yes);
        if (facts) return facts->attributes.modified;
        complain({quote(text), ": ", reason(facts.code()), missing_hint(location)});
        return {};
    };
    const auto expression = Expression::parse({first, words.end()}, time_of);
    if (!expression) {
        remark({"Try '", program(), " --help' for more information."});
        return 1;
    }
    Search search(session, *expression, sorted, json);
    bool good = true;
    for (const std::string& start : starts) {
        if (!search.run(start)) good = false;
    }
    search.finish();
    return session.close() && good ? 0 : 1;
}

}  // namespace warren::cli
