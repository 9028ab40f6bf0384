// SPDX-License-Identifier: Apache-2.0
// warren cmp: compares two files as cmp(1) does, or two trees as `diff -rq --no-dereference` does,
// on all cores. Exit code 0: equal; 1: different; 2: something could not be compared.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/directory.hpp"
#include "apps/warren/file_attributes.hpp"
#include "apps/warren/file_parts.hpp"
#include "apps/warren/host_checkpoint.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/other_tree.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "base/last_error.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

namespace {

constexpr int trouble_exit = 2;
constexpr int attributes_option = 256;
constexpr int read_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

constexpr Option cmp_options[] = {
    {'s', "quiet", nullptr, "print nothing; only set the exit status"},
    {json_option, "json", nullptr, "print one object per line for each difference"},
    {'x', "one-file-system", nullptr, "do not enter other file systems in the first tree"},
    {attributes_option, "attributes", nullptr,
     "also compare modes, owners, modification times, extended attributes and hard links"},
    WARREN_WALK_OPTIONS,
    WARREN_CHECKPOINT_OPTIONS,
};

constexpr ExitCode cmp_exits[] = {
    {"0", "all is equal"},
    {"1", "something differs"},
    {"2", "something could not be compared, or the command line was invalid"},
};

constexpr Page cmp_page = {
    .usage = "[OPTION]... FILE1 FILE2\n[OPTION]... DIRECTORY1 DIRECTORY2",
    .summary =
        "Compare two files byte by byte, or two trees of the host: report names that exist in "
        "only one tree, files of different types, and files and symbolic links that differ. "
        "Symbolic links are compared, not followed.",
    .options = cmp_options,
    .exits = cmp_exits,
    .examples = "  warren cmp --attributes src /backup/src",
    .see_also = "cmp(1), diff(1)",
    .usage_exit = trouble_exit,
};

std::string kind_name(u32 mode, u64 size) {
    switch (mode & S_IFMT) {
        case S_IFDIR:
            return "a directory";
        case S_IFREG:
            return size == 0 ? "a regular empty file" : "a regular file";
        case S_IFLNK:
            return "a symbolic link";
        case S_IFIFO:
            return "a fifo";
        case S_IFSOCK:
            return "a socket";
        case S_IFCHR:
            return "a character special file";
        default:
            return "a block special file";
    }
}

int link_target(const Place& place, std::string& target) {
    target.resize(4096);  // the maximum length of a link target
    const ssize_t size = ::readlinkat(place.directory, place.name, target.data(), target.size());
    if (size < 0) return errno;
    target.resize(static_cast<size_t>(size));
    return 0;
}

enum class Form : u8 { words, json, silent };

class TreeComparison {
 public:
    TreeComparison(std::string first, std::string second, const WalkSetup& setup, bool attributes,
                   Form form)
        : setup_(setup),
          first_(std::move(first)),
          other_(std::move(second)),
          attributes_(attributes),
          form_(form) {}

    /// Returns the exit code.
    int run();

 private:
    std::string first_path(std::string_view below) const {
        return below.empty() ? first_ : joined(first_, below);
    }
    std::string second_path(std::string_view below) const {
        return below.empty() ? other_.root() : joined(other_.root(), below);
    }
    void differ(std::string_view what, std::string_view below, const std::string& line);
    void differ_in_contents(std::string_view below) {
        differ("contents", below,
               "Files " + output_name(first_path(below)) + " and " +
                   output_name(second_path(below)) + " differ");
    }
    void fail(std::string path, const char* action, i32 error) {
        failures_.add({std::move(path), action, error});
    }
    walk::Next visit(const walk::Entry& entry);
    bool compare_kinds(const Place& first, const struct statx& one, const Place& second,
                       const struct stat& two, std::string_view below);
    void compare_attributes(const Place& first, const struct statx& one, const Place& second,
                            const struct stat& two, std::string_view below);
    void compare_files(const walk::Entry& entry, const Place& second, u64 size,
                       std::string_view below);
    void compare_range(const Place& first, const Place& second, u64 begin, u64 end,
                       std::string_view below);
    void work(const walk::Task& task);
    void finish(const walk::Finished& directory);
    std::string save();
    bool load(std::string_view saved);
    bool conclude();

    WalkSetup setup_;
    std::string first_;
    OtherTree other_;
    bool attributes_;
    Form form_;
    FailureList failures_;
    std::mutex mutex_;                         // guards told_
    std::set<std::string, std::less<>> told_;  // files with a part that differs
    std::atomic<bool> differs_{false};
};

/// Reports a difference: `below` is the path relative to both roots, `line` the text.
void TreeComparison::differ(std::string_view what, std::string_view below,
                            const std::string& line) {
    differs_.store(true, std::memory_order_relaxed);
    if (form_ == Form::silent) return;
    if (form_ == Form::words) return print_line({line});
    Json json;
    json.open_object().member("path", below).member("differs", what);
    print_line({json.close_object().result()});
}

bool TreeComparison::compare_kinds(const Place& first, const struct statx& one, const Place& second,
                                   const struct stat& two, std::string_view below) {
    if ((one.stx_mode & S_IFMT) != (two.st_mode & S_IFMT)) {
        differ("kind", below,
               "File " + output_name(first_path(below)) + " is " +
                   kind_name(one.stx_mode, one.stx_size) + " while file " +
                   output_name(second_path(below)) + " is " +
                   kind_name(two.st_mode, static_cast<u64>(two.st_size)));
        return false;
    }
    if (S_ISLNK(one.stx_mode)) {
        std::string target;
        std::string other;
        if (const int error = link_target(first, target)) {
            fail(first_path(below), "read symbolic link", error);
        } else if (const int failure = link_target(second, other)) {
            fail(second_path(below), "read symbolic link", failure);
        } else if (target != other) {
            differ("target", below,
                   "Symbolic links " + output_name(first_path(below)) + " and " +
                       output_name(second_path(below)) + " differ");
        }
    }
    const bool is_device = S_ISCHR(one.stx_mode) || S_ISBLK(one.stx_mode);
    if (is_device && makedev(one.stx_rdev_major, one.stx_rdev_minor) != two.st_rdev) {
        differ("device", below,
               "Special files " + output_name(first_path(below)) + " and " +
                   output_name(second_path(below)) + " differ");
    }
    return true;
}

void TreeComparison::compare_attributes(const Place& first, const struct statx& one,
                                        const Place& second, const struct stat& two,
                                        std::string_view below) {
    std::string what;
    if ((one.stx_mode & 07777) != (two.st_mode & 07777)) what += " mode";
    if (one.stx_uid != two.st_uid) what += " owner";
    if (one.stx_gid != two.st_gid) what += " group";
    if (one.stx_mtime.tv_sec != two.st_mtim.tv_sec ||
        static_cast<long>(one.stx_mtime.tv_nsec) != two.st_mtim.tv_nsec) {
        what += " time";
    }
    if (!S_ISDIR(one.stx_mode) && one.stx_nlink != two.st_nlink) what += " links";
    if (!same_extended_attributes(first, second)) what += " extended";
    if (what.empty()) return;
    differ(what.substr(1), below,
           "Attributes of " + output_name(first_path(below)) + " and " +
               output_name(second_path(below)) + " differ:" + what);
}

walk::Next TreeComparison::visit(const walk::Entry& entry) {
    const struct statx* status = entry.status(STATX_BASIC_STATS);
    if (status == nullptr) return walk::Next::prune;
    const std::string below(below_root(entry.path(), first_));
    const Place first{entry.directory(), entry.name()};
    Place second{AT_FDCWD, other_.root().c_str()};
    if (entry.depth() > 0) second = {other_.directory(without_last(below)), entry.name()};
    if (second.directory == -1) {
        fail(second_path(without_last(below)), "open", errno);
        return walk::Next::prune;
    }
    struct stat there {};
    if (const int error = look_at(second, there)) {
        if (error != ENOENT) {
            fail(second_path(below), "stat", error);
        } else {
            const std::string folder = first_path(without_last(below));
            differ("only in the first", below,
                   "Only in " + output_name(folder) + ": " + output_name(entry.name_view()));
        }
        return walk::Next::prune;
    }
    if (!compare_kinds(first, *status, second, there, below)) return walk::Next::prune;
    if (attributes_) compare_attributes(first, *status, second, there, below);
    if (!S_ISREG(status->stx_mode)) return walk::Next::go_on;
    if (there.st_ino == status->stx_ino && device_of(there) == walk::device_of(*status)) {
        return walk::Next::go_on;  // the same file
    }
    if (static_cast<u64>(there.st_size) != status->stx_size) {
        differ_in_contents(below);
    } else {
        compare_files(entry, second, status->stx_size, below);
    }
    return walk::Next::go_on;
}

void TreeComparison::compare_files(const walk::Entry& entry, const Place& second, u64 size,
                                   std::string_view below) {
    const Place first{entry.directory(), entry.name()};
    if (size < large_bytes) return compare_range(first, second, 0, to_the_end, below);
    add_file_parts(entry, size);
}

void TreeComparison::compare_range(const Place& first, const Place& second, u64 begin, u64 end,
                                   std::string_view below) {
    const Descriptor one(::openat(first.directory, first.name, read_flags | O_NOFOLLOW));
    if (!one) return fail(first_path(below), "open for reading", errno);
    const Descriptor two(::openat(second.directory, second.name, read_flags | O_NOFOLLOW));
    if (!two) return fail(second_path(below), "open for reading", errno);
    std::optional<Difference> difference;
    const Fault fault = compare_part(one.get(), two.get(), begin, end, difference);
    if (fault) {
        fail(fault.at_target ? second_path(below) : first_path(below), fault.action, fault.error);
    } else if (difference) {
        if (end == to_the_end) return differ_in_contents(below);
        std::lock_guard lock(mutex_);
        told_.emplace(below);
    }
}

void TreeComparison::work(const walk::Task& task) {
    const std::string folder(below_root(task.path, first_));
    const std::optional<FilePart> part = file_part_of(task);
    if (!part) return fail(first_path(folder), walk::action_resume, EUCLEAN);
    const char* const name = part->name;
    const std::string below = folder.empty() ? name : joined(folder, name);
    const int second = other_.directory(folder);
    if (second < 0) return fail(second_path(below), "open for reading", errno);
    if (task.directory < 0) return fail(first_path(below), "open for reading", task.error);
    compare_range({task.directory, name}, {second, name}, part->begin, part->end, below);
}

/// Reports entries of this directory that only the second tree has.
void TreeComparison::finish(const walk::Finished& directory) {
    if (!directory.complete()) return;
    const std::string path = directory.path();
    const std::string below(below_root(path, first_));
    const Descriptor first = open_again(directory, O_RDONLY | O_CLOEXEC);
    if (!first) return fail(path, "open", errno);
    const Descriptor second = other_.open(below);
    if (!second) return fail(second_path(below), "open", errno);
    std::vector<std::string> names;
    if (const int error = list_names(second.get(), names)) {
        return fail(second_path(below), "read", error);
    }
    for (const std::string& name : names) {
        struct stat status {};
        const int error = look_at({first.get(), name.c_str()}, status);
        if (error == 0) continue;
        const std::string inner = below.empty() ? name : joined(below, name);
        if (error != ENOENT) {
            fail(first_path(inner), "stat", error);
            continue;
        }
        differ("only in the second", inner,
               "Only in " + output_name(second_path(below)) + ": " + output_name(name));
    }
}

int TreeComparison::run() {
    if (!begin_checkpoints(setup_) || !failures_.open(setup_.errors_file, setup_.options.resume))
        return trouble_exit;
    walk::Meter meter;
    setup_.options.meter = &meter;
    walk::Callbacks callbacks;
    callbacks.visit = [&](const walk::Entry& entry) { return visit(entry); };
    callbacks.finish = [&](const walk::Finished& directory) { finish(directory); };
    callbacks.fail = [&](const walk::Failure& failure) { failures_.add(failure); };
    callbacks.work = [&](const walk::Task& task) { work(task); };
    callbacks.save = [&] { return save(); };
    callbacks.load = [&](std::string_view saved) { return load(saved); };
    walk::Totals totals;
    {
        const Progress progress("comparing", meter);
        totals = walk::walk(std::span(&first_, 1), setup_.options, callbacks);
    }
    if (totals.interrupted) return exit_interrupted(setup_);
    end_checkpoints(setup_);
    const bool differs = conclude();
    if (!failures_.finish()) return trouble_exit;
    return differs && rank_number() == 0 ? 1 : 0;
}

/// For a checkpoint: all lines about the work that it covers have been printed.
std::string TreeComparison::save() {
    if (rank_number() == 0) finish_output();
    walk::ByteWriter writer;
    writer.put(differs_.load(std::memory_order_relaxed));
    writer.put(static_cast<u32>(told_.size()));
    for (const std::string& below : told_)
        writer.put_bytes(below);
    return writer.take() + failures_.save();
}

bool TreeComparison::load(std::string_view saved) {
    walk::ByteReader reader(saved, walk::Origin::file);
    if (reader.get<bool>()) differs_ = true;
    for (u64 left = reader.get_count(1); left > 0; --left)
        told_.emplace(reader.get_bytes());
    return failures_.load(reader);
}

/// Reports the large files that differ, collected from all ranks since several may have compared
/// parts of one file; true if anything differs.
bool TreeComparison::conclude() {
    walk::ByteWriter writer;
    for (const std::string& below : told_)
        writer.put_bytes(below);
    std::set<std::string, std::less<>> all;
    for (const std::string& of_rank : gather_over_ranks(writer.bytes())) {
        for (walk::ByteReader reader(of_rank); !reader.at_end();)
            all.emplace(reader.get_bytes());
    }
    if (rank_number() == 0) {
        for (const std::string& below : all)
            differ_in_contents(below);
    }
    bool differs = false;
    for (const std::string& of_rank : gather_over_ranks(differs_ ? "differs" : ""))
        differs |= !of_rank.empty();
    return differs;
}

/// The line, counted from 1, that contains the byte at `offset`.
u64 line_of(int file, u64 offset) {
    u64 line = 1;
    std::vector<char> buffer(256 * kib);
    for (u64 at = 0; at < offset;) {
        const u64 wanted = std::min<u64>(buffer.size(), offset - at);
        const ssize_t got = ::pread(file, buffer.data(), wanted, static_cast<off_t>(at));
        if (got <= 0) break;
        line += static_cast<u64>(std::count(buffer.begin(), buffer.begin() + got, '\n'));
        at += static_cast<u64>(got);
    }
    return line;
}

int compare_two_files(const std::string& first, const std::string& second, Form form) {
    const Descriptor one(::open(first.c_str(), O_RDONLY | O_CLOEXEC));
    const int error = errno;
    const Descriptor two(::open(second.c_str(), O_RDONLY | O_CLOEXEC));
    if (!one || !two) {
        const std::string& path = one ? second : first;
        complain({quote_if_needed(path), ": ", reason(static_cast<Errc>(one ? errno : error))});
        return trouble_exit;
    }
    std::optional<Difference> difference;
    const Fault fault = compare_part(one.get(), two.get(), 0, to_the_end, difference);
    if (fault) {
        complain({quote_if_needed(fault.at_target ? second : first), ": ",
                  reason(static_cast<Errc>(fault.error))});
        return trouble_exit;
    }
    if (!difference) return 0;
    if (form == Form::silent) return 1;
    const std::string byte = std::to_string(difference->offset + 1);
    const u64 line = line_of(one.get(), difference->offset);
    if (form == Form::json) {
        Json json;
        json.open_object().member("first", std::string_view(first));
        json.member("second", std::string_view(second)).member("differs", "contents");
        json.member("byte", difference->offset + 1).member("line", line);
        print_line({json.close_object().result()});
    } else if (!difference->is_end) {
        print_line({output_name(first), " ", output_name(second), " differ: byte ", byte, ", line ",
                    std::to_string(line)});
    } else if (difference->offset == 0) {
        complain({"EOF on ", quote_if_needed(difference->ends_first ? first : second),
                  " which is empty"});
    } else {
        // In an incomplete line, or after the last complete one.
        const u64 before = line_of(one.get(), difference->offset - 1);
        complain({"EOF on ", quote_if_needed(difference->ends_first ? first : second),
                  " after byte ", std::to_string(difference->offset),
                  line == before ? ", in line " : ", line ", std::to_string(before)});
    }
    return 1;
}

/// Whether the operand exists; sets `tree` if it is a directory.
bool is_tree(const std::string& path, bool& tree) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        complain({path, ": ", reason(last_error()), missing_hint(parse_location(path))});
        return false;
    }
    tree = S_ISDIR(status.st_mode);
    return true;
}

int command_cmp(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(cmp_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (parsed.operands.size() != 2) return usage_error(cmp_page, {"name two files or two trees"});
    WalkSetup setup;
    if (!setup.take_all(parsed) || !take_checkpoint(cmp_page, parsed, 1, setup))
        return cmp_page.usage_exit;
    setup.options.one_file_system = parsed.has('x');
    setup.options.follow = walk::Follow::roots;
    const std::string* const paths = parsed.operands.data();
    bool trees[2] = {};
    bool good = true;
    for (int side = 0; side < 2; ++side) {
        if (rank_number() == 0) good = is_tree(paths[side], trees[side]) && good;
    }
    // All ranks act on what rank 0 has determined.
    const std::string kind = share_over_ranks(!good                  ? "trouble"
                                              : trees[0] && trees[1] ? "trees"
                                                                     : "files");
    if (kind == "trouble") return rank_number() == 0 ? trouble_exit : 0;
    raise_open_limit();
    const Form form = parsed.has('s')           ? Form::silent
                      : parsed.has(json_option) ? Form::json
                                                : Form::words;
    if (kind == "trees") {
        return TreeComparison(paths[0], paths[1], setup, parsed.has(attributes_option), form).run();
    }
    if (!setup.options.checkpoint.empty()) {
        return usage_error(cmp_page, {"--checkpoint is for a comparison of two trees"});
    }
    if (leave_to_rank_0()) return 0;
    // A file and a directory: compare with the file of that name in the directory, as diff(1) does.
    std::string files[2] = {paths[0], paths[1]};
    for (int side = 0; side < 2; ++side) {
        if (trees[side]) files[side] = joined(paths[side], last_component(paths[1 - side]));
    }
    return compare_two_files(files[0], files[1], form);
}

}  // namespace

const Command cmp_command = {"cmp", "compare files and trees of the host", cmp_page, command_cmp,
                             true};

}  // namespace warren::cli
