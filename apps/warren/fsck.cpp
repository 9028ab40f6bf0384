// SPDX-License-Identifier: Apache-2.0
// warren fsck: checks a volume that is not in use, and repairs it on request. Called as fsck.warren
// it behaves as fsck(8) expects, exit codes included.
#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/engine_choice.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/units.hpp"

namespace warren::cli {

namespace {

constexpr int exit_clean = 0;
constexpr int exit_repaired = 1;
constexpr int exit_problems_left = 4;
constexpr int exit_operational = 8;
constexpr int exit_usage = 16;

constexpr Option fsck_options[] = {
    {'a', nullptr, nullptr, nullptr},
    {'C', nullptr, "DESCRIPTOR", nullptr},
    {'f', "force", nullptr, "accepted; the check is always complete"},
    {'n', nullptr, nullptr, "change nothing (default)"},
    {'p', nullptr, nullptr, nullptr},
    {'r', nullptr, nullptr, nullptr},
    {'T', nullptr, nullptr, nullptr},
    {'V', nullptr, nullptr, nullptr},
    {'v', "verbose", nullptr, "print how long each step took"},
    {'y', "repair", nullptr, "repair all problems (also -a, -p)"},
    {json_option, "json", nullptr, "print an object with all problems"},
};

constexpr ExitCode fsck_exits[] = {
    {"0", "the volume is clean"},
    {"1", "all problems were repaired"},
    {"4", "problems are left"},
    {"8", "the volume could not be checked"},
    {"16", "the command line was invalid"},
};

constexpr Page fsck_page = {
    .usage = "[OPTION]... IMAGE",
    .summary = "Check a Warren volume that is not mounted; one line per problem, then a summary.",
    .options = fsck_options,
    .notes =
        "A parallel quick check, by all cores or the GPU, reads all metadata; whatever looks "
        "suspicious gets the full check, by one core.",
    .exits = fsck_exits,
    .examples =
        "  warren fsck v.img\n"
        "  warren fsck --repair v.img",
    .see_also = "fsck(8)",
    .usage_exit = exit_usage,
    .output_exit = exit_operational,
    .opens_images = true,
};

u64 microseconds(double seconds) {
    return static_cast<u64>(seconds * 1e6);
}

/// The engine that ran the quick check.
std::string_view quick_check_engine(const CheckResult& result) {
    return result.engine == EngineChoice::automatic ? "none" : name_of(result.engine);
}

std::string milliseconds(double seconds) {
    return grouped(static_cast<u64>(seconds * 1e3 + 0.5)) + " ms";
}

void print_times(const std::string& image, const CheckResult& result) {
    if (result.engine == EngineChoice::automatic) return;
    print_line({quote_if_needed(image), ": quick check by ", quick_check_engine(result),
                ": ready in ", milliseconds(result.start_seconds), ", metadata loaded in ",
                milliseconds(result.load_seconds), " (", milliseconds(result.disk_seconds),
                " of it the disk), examined in ", milliseconds(result.examine_seconds),
                result.was_full ? "; then the full check" : ""});
}

std::string json_report(const std::string& image, const std::vector<std::string>& problems,
                        const CheckResult& result) {
    Json json;
    json.open_object().member("image", std::string_view(image));
    json.key("problems").open_array();
    for (const std::string& problem : problems)
        json.text(problem);
    json.close_array();
    json.member("problem_count", result.problems).member("repaired", result.repaired);
    json.member("inodes", result.inodes).member("directories", result.directories);
    json.member("blocks_used", result.blocks_used).member("orphans", result.orphans);
    json.key("quick_check_engine").text(quick_check_engine(result));
    json.member("note", std::string_view(result.note));
    json.member("start_us", microseconds(result.start_seconds));
    json.member("load_us", microseconds(result.load_seconds));
    json.member("disk_us", microseconds(result.disk_seconds));
    json.member("examine_us", microseconds(result.examine_seconds));
    return json.close_object().result();
}

void print_summary(const std::string& image, const CheckResult& result, bool repair) {
    std::string verdict = "clean";
    if (result.orphans != 0) {
        verdict += " but for " + counted(result.orphans, "orphan", "orphans") +
                   ", which the next mount frees";
    }
    if (result.problems != 0) {
        verdict = counted(result.problems, "problem", "problems") + ", ";
        verdict += repair ? grouped(result.repaired) + " repaired" : "none repaired (say --repair)";
    }
    print_line({quote_if_needed(image), ": ", verdict, "; ",
                counted(result.inodes, "inode", "inodes"), ", ",
                counted(result.directories, "directory", "directories"), ", ",
                long_size(result.blocks_used * 4096), " in use"});
}

int exit_code(const CheckResult& result) {
    if (result.problems == 0) return exit_clean;
    return result.repaired >= result.problems ? exit_repaired : exit_problems_left;
}

int command_fsck(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(fsck_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (parsed.operands.empty()) return usage_error(fsck_page, {"missing operand: which image?"});
    if (parsed.operands.size() > 1) {
        return usage_error(fsck_page, {"extra operand ", quote(parsed.operands[1])});
    }
    const bool repair = parsed.last_of({'a', 'p', 'r', 'y'}) != 0;
    if (repair && parsed.has('n')) {
        return usage_error(fsck_page, {"-n cannot be combined with -a, -p, -y or --repair"});
    }
    const std::string& image = parsed.operands[0];
    if (const std::string point = mount_point_of_image(image); !point.empty()) {
        complain({quote(image), " is mounted at ", quote(point), " (unmount it first)"});
        return exit_operational;
    }
    warn_of_exposure(image);
    const bool json = parsed.has(json_option);
    std::vector<std::string> problems;
    CheckOptions check;
    check.repair = repair;
    check.engine = engine_for_command();
    check.report = [&](const std::string& problem) {
        if (json) {
            problems.push_back(problem);
        } else {
            print_line({quote_if_needed(image), ": ", problem});
        }
    };
    CheckResult result;
    Failure failure;
    {
        const Progress progress("checking " + quote(image));
        failure = check_volume(image, check, result);
    }
    if (failure.code != Errc::ok) {
        complain({failure.message});
        return exit_operational;
    }
    if (json) {
        print_line({json_report(image, problems, result)});
    } else {
        if (!result.note.empty()) {
            print_line(
                {quote_if_needed(image), ": checked block by block, which is slow: ", result.note});
        }
        if (parsed.has('v')) print_times(image, result);
        print_summary(image, result, repair);
    }
    return exit_code(result);
}

}  // namespace

const Command fsck_command = {
    "fsck", "check and repair a volume", fsck_page, command_fsck, false, {"fsck.warren"}};

}  // namespace warren::cli
