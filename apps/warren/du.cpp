// SPDX-License-Identifier: Apache-2.0
// warren du: shows how much space trees take. The volume computes sums itself where it can;
// otherwise one scan of the engine visits every entry. Files of the host are walked on all cores. A
// file with several names counts once.
#include <algorithm>
#include <deque>
#include <fstream>
#include <unordered_map>
#include <unordered_set>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/du_host.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/json_array.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "apps/warren/tree_scan.hpp"
#include "apps/warren/units.hpp"
#include "base/last_error.hpp"

namespace warren::cli {

namespace {

constexpr int apparent_option = 256;
constexpr int inodes_option = 257;
constexpr int exclude_option = 258;
constexpr int top_option = 259;
constexpr int histogram_option = 260;
constexpr int si_option = 261;
constexpr int shared_option = 262;

constexpr Option du_options[] = {
    {'0', "null", nullptr, "end each line with NUL"},
    {'a', "all", nullptr, "print files too, not only directories"},
    {apparent_option, "apparent-size", nullptr, "print file sizes rather than allocated space"},
    {'B', "block-size", "SIZE",
     "print in units of SIZE: 1, 4K, 1M; a bare letter is also printed after each number"},
    {'b', "bytes", nullptr, "same as --apparent-size, in bytes"},
    {'c', "total", nullptr, "also print the sum of all operands"},
    {'d', "max-depth", "N", "print only entries at most N levels below the operands"},
    {'h', "human-readable", nullptr, "print sizes like 4.0K, 12M"},
    {si_option, "si", nullptr, "likewise, in powers of 1000"},
    {'k', nullptr, nullptr, "in units of 1 KiB (default)"},
    {'l', "count-links", nullptr, "count a file with several hard links once for each"},
    {'m', nullptr, nullptr, "in units of 1 MiB"},
    {shared_option, "shared", nullptr,
     "volumes only: print the size, its exclusive and its shared part, and the name"},
    {'s', "summarize", nullptr, "print only the operands; same as -d 0"},
    {'t', "threshold", "SIZE",
     "print only entries of at least SIZE or, for -SIZE, of at most SIZE"},
    {json_option, "json", nullptr, "print an array of objects; sizes in bytes"},
    {'x', "one-file-system", nullptr, "do not enter other file systems"},
    {'L', "dereference", nullptr, "host only: follow all symbolic links"},
    {'D', "dereference-args", nullptr, "host only: follow symbolic links among the operands"},
    {'H', nullptr, nullptr, "host only: same as -D"},
    {'P', "no-dereference", nullptr, "follow no symbolic links (default)"},
    {'S', "separate-dirs", nullptr, "host only: do not include subdirectories in a directory"},
    {inodes_option, "inodes", nullptr, "host only: print numbers of entries rather than space"},
    {exclude_option, "exclude", "GLOB", "host only: leave out files that match GLOB"},
    {'X', "exclude-from", "FILE", "host only: leave out files that match a line of FILE"},
    {top_option, "top", "N", "host only: also print the N largest files"},
    {histogram_option, "histogram", nullptr, "host only: also print a histogram of file sizes"},
    WARREN_WALK_OPTIONS,
    WARREN_CHECKPOINT_OPTIONS,
};

constexpr Page du_page = {
    .usage = "[OPTION]... [FILE]...",
    .summary =
        "Show how much space trees take: IMAGE:/path inside a volume that is not mounted, or any "
        "path of the host.",
    .options = du_options,
    .notes =
        "With --shared, a block is shared if there is more than one reference to it from "
        "files, inside the tree or not; it counts for each of these files. The exclusive part "
        "becomes free when the file is removed. df(1) counts a shared block once.",
    .examples =
        "  warren du -sh v.img:/          all of it\n"
        "  warren du -h -d 1 /mnt/w       each directory at the top\n"
        "  warren du -ah --shared /mnt/w  what each file has for itself, and what it shares\n"
        "  warren du -sx --top 10 /       a whole system and its largest files",
    .see_also = "du(1)",
    .opens_images = true,
};

struct How {
    bool null = false;
    bool all = false;
    bool apparent = false;
    u64 human_base = 0;  // not 0: print sizes with unit letters, in powers of it
    bool count_links = false;
    bool json = false;
    bool counts = false;  // of entries, not sizes
    bool shared = false;  // print how much of a size is shared
    u64 unit = kib;
    std::string unit_letters;  // printed after numbers
    u64 least = 0;             // smallest amount that gets a line
    u64 most = ~u64{0};
    u32 max_depth = ~0u;
    bool is_only_one = true;  // operand: all names of a file are met in one tree
};

struct Amount {
    u64 size = 0;
    u64 shared = 0;  // how many of these bytes
};

struct FileLine {
    const DirectoryRecord* directory;
    std::string name;
    Amount amount;
};

struct Counted {
    std::vector<FileLine> files;  // those that get a line of their own
    u64 entries = 0;
};

/// An entry that gets a line of its own.
struct Line {
    std::string name;
    Amount amount;
    const DirectoryRecord* directory = nullptr;  // null for a file
};

class Usage {
 public:
    Usage(Session& session, const How& how) : session_(session), how_(how) {}

    bool measure(const std::string& start);
    void print(const Amount& amount, const std::string& path);
    /// The same, if the amount is within the limits for lines.
    void print_line_of(const Amount& amount, const std::string& path) {
        if (amount.size >= how_.least && amount.size <= how_.most) print(amount, path);
    }
    void finish() {
        if (how_.json) objects_.close();
    }
    const Amount& total() const { return total_; }
    void add(const Amount& amount) {
        total_.size += amount.size;
        total_.shared += amount.shared;
    }

 private:
    using Children = std::unordered_map<const DirectoryRecord*, std::vector<Line>>;

    u64 size_of(const Attributes& attributes) const {
        const bool is_device =
            (attributes.mode & 0170000) == 0060000 || (attributes.mode & 0170000) == 0020000;
        if (how_.apparent) return is_device ? 0 : attributes.size;
        return attributes.blocks * 4096;
    }
    /// The file may change during the scan, so `shared` can exceed the size that the scan saw.
    Amount amount_of(const Found& found) const {
        const u64 size = size_of(*found.known);
        return {size, std::min(size, found.space.shared * 4096)};
    }
    /// Whether the file was counted already under another name.
    bool seen_before(u64 file_system, const Attributes& attributes);
    /// Lets the volume add up; Errc::not_supported if each entry must be visited instead.
    Errc add_up(TreeScan& scan, const std::string& start, Line& first, Children& children);
    Errc look_at_all(TreeScan& scan, const std::string& start, Line& first, Children& children);
    void print_lines(Line start, Children& children);
    std::string number_text(u64 size) const;

    Session& session_;
    How how_;
    JsonArray objects_;
    Amount total_;
    std::deque<DirectoryRecord> summed_;  // directories that the volume has added up
    std::mutex links_mutex_;              // guards links_
    std::unordered_map<u64, std::unordered_set<u64>> links_;  // inodes by file system
};

bool Usage::seen_before(u64 file_system, const Attributes& attributes) {
    const bool directory = (attributes.mode & 0170000) == 0040000;
    if (directory || attributes.links < 2 || how_.count_links) return false;
    std::lock_guard lock(links_mutex_);
    return !links_[file_system].insert(attributes.handle.inode).second;
}

std::string Usage::number_text(u64 size) const {
    if (how_.human_base != 0) return short_size(size, how_.human_base);
    if (how_.counts) return std::to_string(size);
    return std::to_string((size + how_.unit - 1) / how_.unit) + how_.unit_letters;
}

void Usage::print(const Amount& amount, const std::string& path) {
    const u64 exclusive = amount.size - amount.shared;
    if (how_.json) {
        Json object;
        object.open_object().member("path", std::string_view(path)).member("bytes", amount.size);
        if (how_.shared) object.member("exclusive", exclusive).member("shared", amount.shared);
        return objects_.add(object.close_object().result());
    }
    std::string numbers = number_text(amount.size) + "\t";
    if (how_.shared) numbers += number_text(exclusive) + "\t" + number_text(amount.shared) + "\t";
    const std::string name = how_.null ? path + '\0' : output_name(path) + '\n';
    print_bytes(numbers + name);
}

/// Prints the contents of a directory before the directory, each level sorted by name.
void Usage::print_lines(Line start, Children& children) {
    struct Level {
        Line line;
        std::vector<Line> below;
        size_t next = 0;
        size_t path_size = 0;  // the length of the parent's path
    };
    std::string path;
    std::vector<Level> stack;
    auto push = [&](Line line) {
        Level level;
        level.path_size = path.size();
        path = stack.empty() ? line.name : joined(path, line.name);
        if (line.directory != nullptr && stack.size() < how_.max_depth) {
            level.below = std::move(children[line.directory]);
            std::sort(level.below.begin(), level.below.end(),
                      [](const Line& a, const Line& b) { return a.name < b.name; });
        }
        level.line = std::move(line);
        stack.push_back(std::move(level));
    };
    push(std::move(start));
    while (!stack.empty()) {
        Level& level = stack.back();
        if (level.next < level.below.size()) {
            push(std::move(level.below[level.next++]));
            continue;
        }
        print_line_of(level.line.amount, path);
        path.resize(level.path_size);
        stack.pop_back();
    }
}

Errc Usage::add_up(TreeScan& scan, const std::string& start, Line& first, Children& children) {
    if (how_.all || how_.shared || !how_.is_only_one) return Errc::not_supported;
    std::vector<DirectoryUsage> answer;
    const Errc code = scan.usage({how_.max_depth, how_.count_links}, answer);
    if (code == Errc::not_supported || answer.empty()) return code;
    for (const DirectoryUsage& usage : answer) {
        DirectoryRecord& record = summed_.emplace_back();
        record.depth = usage.depth;
        record.name = usage.name;
        const u64 size = how_.apparent ? usage.bytes : usage.blocks * 4096;
        if (summed_.size() == 1) {
            first = {start, {size}, &record};
            continue;
        }
        record.above = &summed_[usage.above];
        children[record.above].push_back({record.name, {size}, &record});
    }
    return code;
}

bool Usage::measure(const std::string& start) {
    const auto scan = TreeScan::open(session_, parse_location(start), "du(1)");
    if (!scan) return false;
    Line first{start, {}, nullptr};
    Children children;
    Errc code = add_up(*scan, start, first, children);
    if (code == Errc::not_supported) code = look_at_all(*scan, start, first, children);
    add(first.amount);
    print_lines(std::move(first), children);
    if (code != Errc::ok) complain({quote(start), ": ", reason(code)});
    return code == Errc::ok;
}

Errc Usage::look_at_all(TreeScan& scan, const std::string& start, Line& first, Children& children) {
    PerThread<Counted> threads;
    Errc code = Errc::ok;
    {
        Progress progress("measuring " + quote(start));
        const auto visit = [&](const Found& found) {
            const bool again = seen_before(scan.file_system(), *found.known);
            const Amount amount = again ? Amount{} : amount_of(found);
            progress.add(1, amount.size);
            if (found.self == nullptr && found.directory == nullptr) {
                first.amount = amount;
                return true;
            }
            DirectoryRecord& in = found.self != nullptr ? *found.self : *found.directory;
            in.total.fetch_add(amount.size, std::memory_order_relaxed);
            in.shared.fetch_add(amount.shared, std::memory_order_relaxed);
            if (found.self == nullptr && how_.all && found.depth <= how_.max_depth) {
                threads.local().files.push_back({found.directory, std::string(found.name), amount});
            }
            return true;
        };
        code = scan.run(~0u, visit, {.counts_shared = how_.shared});
    }
    std::vector<DirectoryRecord*> directories = scan.directories();
    std::sort(directories.begin(), directories.end(),
              [](const auto* a, const auto* b) { return a->depth > b->depth; });
    for (DirectoryRecord* directory : directories) {
        const Amount amount{directory->total.load(std::memory_order_relaxed),
                            directory->shared.load(std::memory_order_relaxed)};
        if (directory->above == nullptr) {
            first = {start, amount, directory};
            continue;
        }
        directory->above->total.fetch_add(amount.size, std::memory_order_relaxed);
        directory->above->shared.fetch_add(amount.shared, std::memory_order_relaxed);
        if (directory->depth <= how_.max_depth) {
            children[directory->above].push_back({directory->name, amount, directory});
        }
    }
    for (const auto& each : threads.all()) {
        for (FileLine& file : each->files) {
            children[file.directory].push_back({std::move(file.name), file.amount, nullptr});
        }
    }
    return code;
}

/// Parses SIZE of --block-size, where a bare letter means one unit of it; false, after an error
/// message, if it is invalid.
bool take_unit(const std::string& text, How& how) {
    const bool is_bare = !text.empty() && (text[0] < '0' || text[0] > '9');
    const std::optional<u64> unit = parse_size(is_bare ? "1" + text : text);
    if (!unit || *unit == 0) {
        complain({"invalid --block-size argument ", quote(text)});
        return false;
    }
    how.unit = *unit;
    if (is_bare) how.unit_letters = text;
    return true;
}

/// The same for --threshold.
bool take_threshold(const std::string& text, How& how) {
    const bool is_most = text.starts_with('-');
    const std::optional<u64> size = parse_size(is_most ? text.substr(1) : text);
    if (!size || (is_most && *size == 0)) {
        complain({"invalid --threshold argument ", quote(text)});
        return false;
    }
    (is_most ? how.most : how.least) = *size;
    return true;
}

/// Adds the lines of a file to the excluded patterns; false, after an error message, if it cannot
/// be read.
bool read_excluded(const std::string& name, std::vector<std::string>& excluded) {
    std::ifstream file(name);
    for (std::string line; std::getline(file, line);)
        excluded.push_back(line);
    if (file.is_open() && !file.bad()) return true;
    complain({quote(name), ": ", reason(last_error())});
    return false;
}

/// Reads the options for the output; false, after an error message, if they contradict each other.
bool choose(const Arguments& parsed, How& how) {
    how.null = parsed.has('0');
    how.all = parsed.has('a');
    how.apparent = parsed.has(apparent_option) || parsed.has('b');
    how.count_links = parsed.has('l');
    how.json = parsed.has(json_option);
    how.counts = parsed.has(inodes_option);
    how.shared = parsed.has(shared_option);
    if (how.shared && (how.apparent || how.counts)) {
        complain(
            {"--shared counts the space that files take: not with --apparent-size, --bytes or "
             "--inodes"});
        return false;
    }
    const std::string* threshold = parsed.value('t');
    if (threshold != nullptr && !take_threshold(*threshold, how)) return false;
    switch (parsed.last_of({'b', 'k', 'm', 'B', 'h', si_option})) {
        case 'h':
            how.human_base = 1024;
            break;
        case si_option:
            how.human_base = 1000;
            break;
        case 'B':
            if (!take_unit(*parsed.value('B'), how)) return false;
            break;
        case 'b':
            how.unit = 1;
            break;
        case 'm':
            how.unit = mib;
            break;
        default:
            break;
    }
    if (const std::string* text = parsed.value('d')) {
        const std::optional<u64> depth = parse_number(*text);
        if (!depth) {
            complain({"invalid maximum depth ", quote(*text)});
            return false;
        }
        how.max_depth = static_cast<u32>(std::min<u64>(*depth, ~0u));
    }
    if (!parsed.has('s')) return true;
    const bool is_deep = parsed.has('d') && how.max_depth != 0;
    if (how.all) complain({"cannot both summarize and show all entries"});
    if (is_deep) complain({"--summarize conflicts with --max-depth=", *parsed.value('d')});
    how.max_depth = 0;
    return !how.all && !is_deep;
}

/// The same for the options that apply to files of the host only.
bool choose_host(const Arguments& parsed, const How& how, UsageChoices& choices, WalkSetup& setup) {
    choices.all = how.all;
    choices.apparent = how.apparent;
    choices.inodes = how.counts;
    choices.count_links = how.count_links;
    choices.separate = parsed.has('S');
    choices.max_depth = how.max_depth;
    choices.histogram = parsed.has(histogram_option);
    for (const auto& [option, value] : parsed.options) {
        if (option == exclude_option) choices.excluded.push_back(value);
        if (option == 'X' && !read_excluded(value, choices.excluded)) return false;
    }
    const int follow = parsed.last_of({'L', 'D', 'H', 'P'});
    setup.options.follow = follow == 'L'                    ? walk::Follow::all
                           : follow == 'D' || follow == 'H' ? walk::Follow::roots
                                                            : walk::Follow::none;
    setup.options.one_file_system = parsed.has('x');
    choices.counts_once = !how.is_only_one || setup.options.follow == walk::Follow::all;
    if (const std::string* text = parsed.value(top_option)) {
        const std::optional<u64> top = parse_number(*text);
        if (!top || *top == 0) {
            complain({"invalid number ", quote(*text), " for --top: name at least 1"});
            return false;
        }
        choices.top = *top;
    }
    if (how.json && (choices.top != 0 || choices.histogram)) {
        complain({"--top and --histogram cannot be combined with --json"});
        return false;
    }
    if (parsed.has(checkpoint_option) && (how.json || choices.top != 0 || choices.histogram)) {
        complain({"--checkpoint cannot be combined with --json, --top or --histogram"});
        return false;
    }
    const size_t trees = std::max<size_t>(parsed.operands.size(), 1);
    return setup.take_all(parsed) && take_checkpoint(du_page, parsed, trees, setup);
}

int command_du(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(du_page, arguments);
    if (parsed.done) return parsed.exit_code;
    std::vector<std::string> starts = parsed.operands;
    if (starts.empty()) starts = {"."};
    How how;
    how.is_only_one = starts.size() == 1;
    UsageChoices choices;
    WalkSetup setup;
    if (!choose(parsed, how) || !choose_host(parsed, how, choices, setup)) {
        remark({"Try '", program(), " --help' for more information."});
        return du_page.usage_exit;
    }
    raise_open_limit();
    const bool alone = how.json || !HostUsage::may_span_ranks(choices, setup, starts);
    if (spans_one_rank(alone, starts) && setup.leave_to_rank_0()) return 0;
    if (rank_count() > 1) choices.counts_once = false;  // no operand contains another
    Session session;
    Usage usage(session, how);
    HostUsage host(choices, setup,
                   [&](u64 size, const std::string& path) { usage.print_line_of({size}, path); });
    if (!host.begin()) return 1;
    const std::string of_host = option_for_host(du_page, parsed);
    bool good = true;
    for (const std::string& start : starts) {
        if (!is_of_volume(start) && how.shared) {
            complain({quote(start), ": --shared is for volumes, mounted or as IMAGE:/path"});
            good = false;
        } else if (!of_host.empty() && (how.shared || parse_location(start).in_image())) {
            complain(
                {quote(start), ": ", of_host, " works on files of the host, not inside a volume"});
            good = false;
        } else if (!of_host.empty() || !is_of_volume(start)) {
            host.measure(start);
        } else if (!usage.measure(start)) {
            good = false;
        }
    }
    if (host.was_interrupted()) return exit_interrupted(setup);
    usage.add({host.total()});
    if (parsed.has('c') && rank_number() == 0) usage.print(usage.total(), "total");
    if (!host.finish()) good = false;
    usage.finish();
    return session.close() && good ? 0 : 1;
}

}  // namespace

const Command du_command = {"du", "show how much space trees take", du_page, command_du, true};

}  // namespace warren::cli
