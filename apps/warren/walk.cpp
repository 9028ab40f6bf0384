// SPDX-License-Identifier: Apache-2.0
// warren walk: lists trees of the host on all cores, in the order in which threads meet the
// entries.
//
// Invariant: lines are written whole. What could not be read is reported at the end, with exit code
// 1.
#include <algorithm>
#include <array>
#include <optional>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/find_expression.hpp"
#include "apps/warren/host_attributes.hpp"
#include "apps/warren/host_checkpoint.hpp"
#include "apps/warren/host_walk.hpp"
#include "apps/warren/listing.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "apps/warren/units.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

namespace {

constexpr int type_option = 256;
constexpr int stat_option = 257;
constexpr int format_option = 258;
constexpr int count_option = 259;

constexpr Option walk_options[] = {
    {'0', "print0", nullptr, "end each line with NUL"},
    {type_option, "type", "LETTERS",
     "list only these types, as in find -type: f, d, l, b, c, p, s"},
    {stat_option, "stat", nullptr, "print the size and a tab before each path"},
    {format_option, "format", "FORMAT", "print like find -printf, without adding line ends"},
    {json_option, "json", nullptr, "print one object per line, with all attributes"},
    {count_option, "count", nullptr,
     "print only the number of files of each type, with --stat also their sizes"},
    {'d', "max-depth", "N", "at most N levels below the operands"},
    {'x', "one-file-system", nullptr, "do not enter other file systems"},
    {'H', nullptr, nullptr, "follow symbolic links among the operands"},
    {'L', nullptr, nullptr, "follow all symbolic links; report loops"},
    WARREN_WALK_OPTIONS,
    WARREN_CHECKPOINT_OPTIONS,
};

constexpr Page walk_page = {
    .usage = "[OPTION]... [DIRECTORY]...",
    .summary =
        "List trees of the host's files on all cores. Errors are printed at the end, and the "
        "exit status is 1 then. 'warren find' has tests and actions, and works in volumes.",
    .options = walk_options,
    .examples =
        "  warren walk --type f --stat /data\n"
        "  warren walk --count --stat /data\n"
        "  warren walk -0 --type f src | xargs -0 wc -c\n"
        "  warren walk --max-ops 2000 --errors failed.json /mnt/lustre",
    .see_also = "find(1)",
};

enum class Form : u8 { path, size, format, json, count };

struct ListOptions {
    Form form = Form::path;
    bool with_size = false;
    char end = '\n';
    std::string types;
    std::string format;
};

class Listing {
 public:
    Listing(const ListOptions& list_options, const WalkSetup& setup)
        : list_options_(list_options),
          setup_(setup),
          lines_(setup.options),
          workers_(walk_threads(setup.options)) {}

    /// Returns the exit code of the command.
    int run(const std::vector<std::string>& roots);

 private:
    using Counts = std::array<u64, 9>;  // of each type, and of bytes

    struct alignas(64) Worker {
        u64 counts[8] = {};
        u64 bytes = 0;
        std::string path;
    };

    void append_path(std::string& line, std::string_view path) const {
        list_options_.end == '\0' ? static_cast<void>(line += path) : append_name(line, path);
        line += list_options_.end;
    }
    walk::Next visit(const walk::Entry& entry, const std::string& start);
    void show(const walk::Entry& entry, const std::string& start, std::string& line);
    Counts own_counts() const;
    void print_counts();
    std::string save();
    bool load(std::string_view saved);

    const ListOptions& list_options_;
    WalkSetup setup_;
    LineBuffers lines_;
    std::vector<Worker> workers_;
    FailureList failures_;
};

/// Appends the entry's line, or nothing if its attributes cannot be read.
void Listing::show(const walk::Entry& entry, const std::string& start, std::string& line) {
    if (list_options_.form == Form::path) {
        append_path(line, entry.path());
        return;
    }
    if (list_options_.form == Form::size) {
        const struct statx* status = entry.status(STATX_SIZE);
        if (status == nullptr) return;
        append_number(line, status->stx_size);
        line += '\t';
        append_path(line, entry.path());
        return;
    }
    EntryAttributes attributes(entry);
    Found found;
    found.name = entry.name_view();
    found.start = start;
    found.depth = entry.depth();
    found.type = type_letter(entry.type());
    found.source = &attributes;
    std::string& path = workers_[entry.worker()].path;
    path.assign(entry.path());
    const size_t before = line.size();
    if (list_options_.form == Form::format) {
        append_formatted(line, list_options_.format, found, path);
    } else {
        Json json;
        json.open_object().member("path", std::string_view(path));
        json.member("depth", u64{found.depth});
        add_attributes(json, found.attributes());
        line += json.close_object().result() + '\n';
    }
    if (found.failed) line.resize(before);
}

walk::Next Listing::visit(const walk::Entry& entry, const std::string& start) {
    const char type = type_letter(entry.type());
    if (!list_options_.types.empty() && list_options_.types.find(type) == std::string::npos) {
        return walk::Next::go_on;
    }
    if (list_options_.form != Form::count) {
        show(entry, start, lines_.of(entry.worker()));
        lines_.wrote(entry.worker());
        return walk::Next::go_on;
    }
    Worker& worker = workers_[entry.worker()];
    if (list_options_.with_size) {
        const struct statx* status = entry.status(STATX_SIZE);
        if (status == nullptr) return walk::Next::go_on;
        worker.bytes += status->stx_size;
    }
    ++worker.counts[static_cast<size_t>(entry.type())];
    return walk::Next::go_on;
}

Listing::Counts Listing::own_counts() const {
    Counts own{};
    for (const Worker& worker : workers_) {
        for (size_t type = 0; type < std::size(worker.counts); ++type)
            own[type] += worker.counts[type];
        own[8] += worker.bytes;
    }
    return own;
}

/// For a checkpoint: all lines about the work that it covers have been printed.
std::string Listing::save() {
    lines_.flush();
    if (rank_number() == 0) finish_output();
    walk::ByteWriter writer;
    writer.put(own_counts());
    return writer.take() + failures_.save();
}

bool Listing::load(std::string_view saved) {
    walk::ByteReader reader(saved, walk::Origin::file);
    const auto counts = reader.get<Counts>();
    if (!failures_.load(reader)) return false;
    for (size_t type = 0; type < std::size(workers_[0].counts); ++type)
        workers_[0].counts[type] += counts[type];
    workers_[0].bytes += counts[8];
    return true;
}

/// Adds up the counts of all ranks; rank 0 prints them.
void Listing::print_counts() {
    static constexpr const char* names[] = {"unknown",        "pipes",         "character devices",
                                            "directories",    "block devices", "files",
                                            "symbolic links", "sockets"};
    walk::ByteWriter writer;
    writer.put(own_counts());
    Counts sums{};
    for (const std::string& of_rank : gather_over_ranks(writer.bytes())) {
        const auto counts = walk::ByteReader(of_rank).get<Counts>();
        for (size_t at = 0; at < sums.size(); ++at)
            sums[at] += counts[at];
    }
    if (rank_number() != 0) return;
    for (size_t type = 0; type < std::size(names); ++type) {
        if (sums[type] != 0) print_line({std::to_string(sums[type]), "\t", names[type]});
    }
    if (list_options_.with_size) print_line({std::to_string(sums[8]), "\tbytes"});
}

int Listing::run(const std::vector<std::string>& roots) {
    if (!begin_checkpoints(setup_) || !failures_.open(setup_.errors_file, setup_.options.resume))
        return 1;
    for (const std::string& root : roots) {
        walk::Meter meter;
        setup_.options.meter = &meter;
        walk::Callbacks callbacks;
        callbacks.visit = [&](const walk::Entry& entry) { return visit(entry, root); };
        callbacks.fail = [&](const walk::Failure& failure) { failures_.add(failure); };
        const Progress progress("walking " + quote(root), meter);
        callbacks.save = [&] { return save(); };
        callbacks.load = [&](std::string_view saved) { return load(saved); };
        const walk::Totals totals = walk::walk(std::span(&root, 1), setup_.options, callbacks);
        lines_.flush();
        if (totals.interrupted) return exit_interrupted(setup_);
    }
    end_checkpoints(setup_);
    if (list_options_.form == Form::count) print_counts();
    return failures_.finish() ? 0 : 1;
}

/// Reads the options; false, after an error message, if they are invalid.
bool choose(const Arguments& parsed, ListOptions& list_options, WalkSetup& setup) {
    const size_t trees = std::max<size_t>(parsed.operands.size(), 1);
    if (!setup.take_all(parsed) || !take_checkpoint(walk_page, parsed, trees, setup)) return false;
    list_options.with_size = parsed.has(stat_option);
    if (list_options.with_size) list_options.form = Form::size;
    if (const std::string* format = parsed.value(format_option)) {
        list_options.form = Form::format;
        list_options.format = *format;
    }
    if (parsed.has(json_option)) list_options.form = Form::json;
    if (parsed.has(count_option)) list_options.form = Form::count;
    if (parsed.has('0')) list_options.end = '\0';
    if (const std::string* types = parsed.value(type_option)) {
        list_options.types = *types;
        if (types->empty() || types->find_first_not_of("fdlbcps,") != std::string::npos) {
            complain({"invalid type ", quote(*types), ": name some of f, d, l, b, c, p, s"});
            return false;
        }
    }
    if (const std::string* text = parsed.value('d')) {
        const std::optional<u64> depth = parse_number(*text);
        if (!depth) {
            complain({"invalid maximum depth ", quote(*text)});
            return false;
        }
        setup.options.max_depth = static_cast<u32>(std::min<u64>(*depth, ~0u));
    }
    setup.options.one_file_system = parsed.has('x');
    if (parsed.has('H')) setup.options.follow = walk::Follow::roots;
    if (parsed.has('L')) setup.options.follow = walk::Follow::all;
    return true;
}

int command_walk(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(walk_page, arguments);
    if (parsed.done) return parsed.exit_code;
    ListOptions list_options;
    WalkSetup setup;
    if (!choose(parsed, list_options, setup)) {
        remark({"Try '", program(), " --help' for more information."});
        return walk_page.usage_exit;
    }
    std::vector<std::string> roots = parsed.operands;
    if (roots.empty()) roots = {"."};
    for (const std::string& root : roots) {
        if (!parse_location(root).in_image()) continue;
        complain({quote(root), " is in a volume that is not mounted: use 'warren find'"});
        return 1;
    }
    raise_open_limit();
    return Listing(list_options, setup).run(roots);
}

}  // namespace

const Command walk_command = {"walk", "list trees of the host on all cores", walk_page,
                              command_walk, true};

}  // namespace warren::cli
