// SPDX-License-Identifier: Apache-2.0
// warren sync: makes everything that was written to volumes durable, or makes one tree of the host
// equal to another, as rsync(1) does.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/cp_host.hpp"
#include "apps/warren/interrupt.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/place.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "apps/warren/resources.hpp"

namespace warren::cli {

namespace {

constexpr int delete_option = 256;

constexpr Option sync_options[] = {
    {'c', "checksum", nullptr, "compare the contents of files, not their size and time"},
    {json_option, "json", nullptr,
     "at the end, an object with the amounts copied, made and removed (with -n, that would "
     "be)"},
    {delete_option, "delete", nullptr, "remove from TARGET what SOURCE does not have"},
    {'L', "copy-links", nullptr, "follow symbolic links"},
    {'n', "dry-run", nullptr, "change nothing, print what would be done"},
    {'u', "update", nullptr, "skip files that are newer in TARGET"},
    {'v', "verbose", nullptr, "print each name that is copied or removed"},
    {verify_option, "verify", nullptr, "read the copies back and compare them"},
    {'x', "one-file-system", nullptr, "do not enter other file systems in SOURCE"},
    WARREN_WALK_OPTIONS,
    WARREN_CHECKPOINT_OPTIONS,
};

constexpr Page sync_page = {
    .usage = "[OPTION]... SOURCE TARGET\nIMAGE|PATH...",
    .summary =
        "The first form makes the tree TARGET equal to SOURCE: contents, owners, modes, "
        "times, extended attributes, hard links. Files with the same size and modification "
        "time are skipped. The second form makes everything that was written to volumes "
        "durable; each operand is a path on a mounted volume, or an image. The journal of an "
        "image that was not closed cleanly is replayed.",
    .options = sync_options,
    .notes =
        "TARGET itself becomes equal to SOURCE; a trailing slash makes no difference. A link to "
        "a directory as TARGET stands for that directory. A file "
        "in TARGET is replaced when its copy is complete. If a directory of SOURCE could not "
        "be read completely, nothing is removed from its copy. TARGET must not be inside "
        "SOURCE, nor SOURCE inside TARGET with --delete.",
    .examples =
        "  warren sync --delete src /backup/src\n"
        "  warren sync -n --delete src /backup/src   what would be done\n"
        "  warren sync /mnt/w                        durable",
    .see_also = "rsync(1), sync(1)",
    .opens_images = true,
};

enum class Meaning : u8 { durable, mirror, unclear };

/// Whether the operand names a volume as a whole, and not a file inside one.
bool is_whole_volume(const std::string& text) {
    const Location location = parse_location(text);
    if (location.in_image()) return location.path == "/";
    return is_warren_mount_point(text) || looks_like_volume(text);
}

bool is_mounted_file(const std::string& text) {
    struct stat there {};
    return ::stat(text.c_str(), &there) == 0 && !S_ISDIR(there.st_mode) && is_on_warren_mount(text);
}

/// What the operands mean: two trees, or an option that applies to trees, select a mirror. Two
/// files on mounts are unclear: sync(1) would make both durable.
Meaning meaning_of(const Arguments& parsed) {
    for (const int id : {int{'c'}, delete_option, int{'L'}, int{'n'}, int{'u'}, int{'v'},
                         verify_option, int{'x'}, json_option}) {
        if (parsed.has(id)) return Meaning::mirror;
    }
    if (parsed.operands.size() != 2) return Meaning::durable;
    if (std::ranges::all_of(parsed.operands, is_mounted_file)) return Meaning::unclear;
    if (!std::ranges::all_of(parsed.operands, is_whole_volume)) return Meaning::mirror;
    const bool are_trees =
        is_warren_mount_point(parsed.operands[0]) && is_warren_mount_point(parsed.operands[1]);
    return are_trees ? Meaning::unclear : Meaning::durable;
}

bool is_same(const Descriptor& one, const Descriptor& other) {
    struct stat left {};
    struct stat right {};
    return ::fstat(one.get(), &left) == 0 && ::fstat(other.get(), &right) == 0 &&
           left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

/// Whether `inner`, which may not exist yet, is below the directory `outer`.
bool lies_below(const std::string& inner, const std::string& outer) {
    constexpr int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    const Descriptor wanted(::open(outer.c_str(), flags));
    const Descriptor start(::open(inner.c_str(), flags));
    Descriptor at(start ? ::openat(start.get(), "..", flags)
                        : ::open(folder_of(inner).c_str(), flags));
    if (start && is_same(start, at)) return false;  // reached the root
    while (wanted && at) {
        if (is_same(at, wanted)) return true;
        Descriptor above(::openat(at.get(), "..", flags));
        if (is_same(at, above)) return false;
        at = std::move(above);
    }
    return false;
}

/// Prepares TARGET for the directory SOURCE: a link to a directory stands for that directory.
/// False, after a message, if something else is there, which the directory would replace.
bool take_target(const std::string& source, std::string& target) {
    struct stat wanted {};
    struct stat there {};
    const bool is_free = ::stat(source.c_str(), &wanted) != 0 || !S_ISDIR(wanted.st_mode) ||
                         ::lstat(target.c_str(), &there) != 0 || S_ISDIR(there.st_mode);
    if (is_free) return true;
    if (S_ISLNK(there.st_mode) && ::stat(target.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) {
        target += '/';
        return true;
    }
    const char* advice = looks_like_volume(target)
                             ? " is a volume: mount it, or use 'warren cp -a -u'"
                             : " is not a directory: remove it, or name another TARGET";
    complain({"cannot make the directory ", quote(source), " there: ", quote(target), advice});
    return false;
}

int mirror(const Arguments& parsed) {
    if (parsed.operands.size() != 2) return usage_error(sync_page, {"name a SOURCE and a TARGET"});
    for (const std::string& operand : parsed.operands) {
        if (!parse_location(operand).in_image()) continue;
        return usage_error(sync_page, {quote(operand),
                                       " lies in an image: mount it, or use 'warren cp "
                                       "-a -u'"});
    }
    const std::string& source = parsed.operands[0];
    std::string target = parsed.operands[1];
    if (!take_target(source, target)) return 1;
    if (lies_below(target, source)) {
        return usage_error(sync_page, {quote(target), " lies in ", quote(source),
                                       " and would have to hold itself: name a TARGET elsewhere"});
    }
    if (parsed.has(delete_option) && lies_below(source, target)) {
        return usage_error(sync_page, {quote(source), " lies in ", quote(target),
                                       " and would be removed with it: leave --delete out"});
    }
    WalkSetup setup;
    if (!setup.take_all(parsed) || !take_checkpoint(sync_page, parsed, 1, setup))
        return sync_page.usage_exit;
    setup.options.one_file_system = parsed.has('x');
    setup.options.follow = parsed.has('L') ? walk::Follow::all : walk::Follow::roots;
    TreeCopyRules rules;
    rules.recursive = rules.keep_links = rules.mirror = true;
    rules.keeps = Keeps::all();
    rules.contents = parsed.has('c');
    rules.delete_others = parsed.has(delete_option);
    rules.dry_run = parsed.has('n');
    rules.update = parsed.has('u');
    rules.sums_up = parsed.has(json_option);
    rules.verbose = parsed.has('v') || (rules.dry_run && !rules.sums_up);
    rules.verify = parsed.has(verify_option);
    raise_descriptor_limit();
    catch_interrupts();
    CopyRun run(rules, setup);
    if (!run.failures.open(setup.errors_file, setup.options.resume)) return 1;
    HostCopy copy(run, target, false, true);
    const bool good = copy.all({source});
    if (copy.was_interrupted()) return exit_interrupted(setup);
    if (!run.is_cut()) return good ? 0 : 1;
    complain({"interrupted; what was copied so far is kept"});
    return interrupted_exit();
}

bool sync_mount(const std::string& path) {
    const std::string attempt = "cannot sync " + quote(path);
    auto connection = connect_for(path, attempt, "sync(1)");
    if (!connection) return false;
    Errc code = Errc::ok;
    {
        const Progress progress("syncing " + quote(path));
        code = connection->sync(path);
    }
    if (code == Errc::stale)
        complain({attempt, ": it has been unmounted meanwhile"});
    else if (code != Errc::ok)
        complain({attempt, ": ", reason(code)});
    return code == Errc::ok;
}

bool sync_operand(const std::string& text) {
    const Location location = parse_location(text);
    std::string image = location.image;
    if (image.empty() && !is_on_warren_mount(text) && looks_like_volume(text)) image = text;
    if (image.empty()) return sync_mount(text);
    if (const std::string point = mount_point_of_image(image); !point.empty()) {
        return sync_mount(point);
    }
    Session session;
    return session.open(image, Access::write) != nullptr && session.close();
}

int command_sync(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(sync_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (!need_operand(parsed)) return sync_page.usage_exit;
    const Meaning meaning = meaning_of(parsed);
    if (meaning == Meaning::mirror) return mirror(parsed);
    if (meaning == Meaning::unclear) {
        return usage_error(sync_page, {"both are mounted volumes, or files on them: name one at a "
                                       "time to make it durable, or say -v to make the second "
                                       "equal the first"});
    }
    if (leave_to_rank_0()) return 0;
    bool good = true;
    for (const std::string& text : parsed.operands) {
        if (!sync_operand(text)) good = false;
    }
    return good ? 0 : 1;
}

}  // namespace

const Command sync_command = {"sync", "make changes durable, or make a tree equal to another",
                              sync_page, command_sync, true};

}  // namespace warren::cli
