// SPDX-License-Identifier: Apache-2.0
// warren rm: removes files, and whole trees as one command of the engine or on all cores on the
// host, with the options and messages of rm(1).
#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "apps/warren/rm_host.hpp"
#include "apps/warren/rm_ring.hpp"
#include "apps/warren/units.hpp"
#include "warren/volume_path.hpp"

namespace warren::cli {

namespace {

constexpr int one_file_system_option = 256;

constexpr Option rm_options[] = {
    {'d', "dir", nullptr, "also remove empty directories"},
    {'f', "force", nullptr, "ignore missing files, never ask"},
    {'i', nullptr, nullptr, "ask before each operand"},
    {'r', "recursive", nullptr, "remove directories and everything in them"},
    {'R', nullptr, nullptr, nullptr},
    {'v', "verbose", nullptr, "print each name that is removed"},
    {one_file_system_option, "one-file-system", nullptr,
     "do not enter other file systems (files of the host)"},
    {json_option, "json", nullptr,
     "at the end, an object with the numbers of removals and failures"},
    WARREN_WALK_OPTIONS,
    WARREN_CHECKPOINT_OPTIONS,
};

constexpr Page rm_page = {
    .usage = "[OPTION]... FILE...",
    .summary =
        "Remove files: IMAGE:/path inside a volume that is not mounted, or any path of the "
        "host. With -r, remove whole trees: in a volume by one command of the engine, "
        "whatever the size, elsewhere on all cores.",
    .options = rm_options,
    .notes =
        "On a mounted volume, a tree is not removed if it is or contains a mount point in this "
        "mount namespace. Mounts in it that belong to other mount namespaces are detached, as by "
        "rm(1).",
    .examples =
        "  warren rm -r v.img:/build     a tree in an image\n"
        "  warren rm -r /mnt/w/build     a tree on a mounted volume\n"
        "  warren rm -rf /tmp/build      a tree on any other file system",
    .see_also = "rm(1)",
    .opens_images = true,
};

class Remover {
 public:
    Remover(const RemovalChoices& choices, const WalkSetup& setup)
        : host_(choices, setup),
          recursive_(choices.recursive),
          directories_(choices.directories),
          force_(choices.force),
          ask_(choices.ask),
          verbose_(choices.verbose) {}

    /// Removes the operands in order.
    bool remove_all(const std::vector<std::string>& texts);
    bool begin() { return host_.begin(); }
    bool follow() { return host_.follow(); }
    bool was_interrupted() const { return host_.was_interrupted(); }
    bool finish() {
        const bool is_closed = session_.close();
        return host_.finish(failures_ + (is_closed ? 0 : 1)) && is_closed;
    }

 private:
    bool remove(const std::string& text);
    bool remove_by_ring(RingRemover& ring);
    bool remove_in_image(const Location& location);
    bool remove_on_mount(const Location& location);
    /// Whether to remove the operand; if not, `good` becomes false if that is a failure.
    bool admit(const std::string& text, const Result<Facts>& facts, const std::string& hint,
               bool& good);
    bool report(const std::string& text, Errc code, bool directory, const Removal* removal);

    HostRemover host_;
    bool recursive_;
    bool directories_;
    bool force_;
    bool ask_;
    bool verbose_;
    u64 failures_ = 0;  // of operands that are in volumes or were refused
    Session session_;
};

bool Remover::remove(const std::string& text) {
    const Location location = parse_location(text);
    const std::string_view last = last_component(location.path);
    if (last == "." || last == "..") {
        complain({"refusing to remove '.' or '..' directory: skipping ", quote(text)});
        return false;
    }
    if (last == "/" && location.in_image()) {
        complain({"refusing to remove the root directory ", quote(text),
                  " (name what is in it, or make a new volume with 'warren mkfs')"});
        return false;
    }
    if (location.in_image()) return remove_in_image(location);
    if (is_of_volume(text)) return remove_on_mount(location);
    host_.remove(text);
    return true;  // finish() reports failures
}

bool Remover::admit(const std::string& text, const Result<Facts>& facts, const std::string& hint,
                    bool& good) {
    good = false;
    if (!facts) {
        good = force_ && (facts.code() == Errc::no_entry || facts.code() == Errc::not_directory);
        if (!good) complain({"cannot remove ", quote(text), ": ", reason(facts.code()), hint});
        return false;
    }
    const bool directory = facts->is_directory();
    if (directory && !recursive_ && !directories_) {
        complain({"cannot remove ", quote(text), ": Is a directory"});
        return false;
    }
    if (!ask_) return true;
    const std::string_view what = directory && recursive_ ? "directory and all that is in it"
                                  : directory             ? "directory"
                                                          : "file";
    good = true;
    return ask({"remove ", what, " ", quote(text), "? "});
}

bool Remover::report(const std::string& text, Errc code, bool directory, const Removal* removal) {
    if (code != Errc::ok) {
        if (code == Errc::no_entry && force_) return true;
        complain({"cannot remove ", quote(text), ": ", reason(code)});
        return false;
    }
    const u64 files = directory ? 0 : 1;
    host_.count(removal == nullptr ? files : removal->files,
                removal == nullptr ? 1 - files : removal->directories);
    if (!verbose_) return true;
    if (removal == nullptr) {
        print_line({directory ? "removed directory " : "removed ", quote(text)});
    } else {
        print_line({"removed ", quote(text), ": ", counted(removal->files, "file", "files"), ", ",
                    counted(removal->directories, "directory", "directories"), ", ",
                    long_size(removal->blocks * 4096), " freed"});
    }
    return true;
}

bool Remover::remove_in_image(const Location& location) {
    Volume* volume = session_.open(location.image, Access::write);
    if (volume == nullptr) return false;
    const Caller caller = command_caller();
    const Result<Facts> facts = volume_directory(*volume, caller)->stat(location.path, Follow::no);
    bool good = false;
    if (!admit(location.text, facts, "", good)) return good;
    Located located;
    Errc code = PathWalker(*volume, caller).locate(volume->root(), location.path, located);
    if (code != Errc::ok || located.name.empty()) {
        return report(location.text, code == Errc::ok ? Errc::busy : code, false, nullptr);
    }
    if (!facts->is_directory()) {
        code = volume->unlink(caller, located.directory, located.name);
        return report(location.text, code, false, nullptr);
    }
    if (!recursive_) {
        code = volume->remove_directory(caller, located.directory, located.name);
        return report(location.text, code, true, nullptr);
    }
    Removal removal;
    {
        const Progress progress("removing " + quote(location.text));
        code = volume->remove_tree(caller, located.directory, located.name, removal);
    }
    return report(location.text, code, true, &removal);
}

bool Remover::remove_on_mount(const Location& location) {
    const std::string& path = location.path;
    const std::shared_ptr<Directory> host = host_directory();
    const Result<Facts> facts = host->stat(path, Follow::no);
    bool good = false;
    if (facts && !is_on_warren_mount(path)) {
        connect_for(path, "cannot remove " + quote(path), "rm(1)");
        return false;
    }
    if (!admit(path, facts, missing_hint(location), good)) return good;
    if (!facts->is_directory()) return report(path, host->remove(path), false, nullptr);
    if (!recursive_) return report(path, host->remove_directory(path), true, nullptr);
    auto connection = connect_for(path, "cannot remove " + quote(path), "rm(1)");
    if (!connection) return false;
    Removal removal;
    Errc code = Errc::ok;
    {
        const Progress progress("removing " + quote(path));
        code = connection->remove_tree(path, removal);
    }
    return report(path, code, true, &removal);
}

/// Removes the names that the ring has taken; names that it could not remove are handled like
/// single operands.
bool Remover::remove_by_ring(RingRemover& ring) {
    bool good = true;
    ring.remove([&](const std::string& text, Errc code) {
        const bool is_done = code == Errc::ok || (code == Errc::no_entry && force_);
        if (is_done ? report(text, code, false, nullptr) : remove(text)) return;
        good = false;
        ++failures_;
    });
    return good;
}

bool Remover::remove_all(const std::vector<std::string>& texts) {
    RingRemover ring;
    const bool may_use_ring = !ask_ && texts.size() >= RingRemover::names_min;
    bool good = true;
    for (const std::string& text : texts) {
        if (may_use_ring && ring.take(text)) {
            if (ring.is_full() && !remove_by_ring(ring)) good = false;
            continue;
        }
        if (!remove_by_ring(ring)) good = false;
        if (remove(text)) continue;
        good = false;
        ++failures_;
    }
    return remove_by_ring(ring) && good;
}

int command_rm(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(rm_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (parsed.operands.empty() && parsed.has('f')) return 0;
    if (!need_operand(parsed)) return rm_page.usage_exit;
    WalkSetup setup;
    if (!setup.take_all(parsed) ||
        !take_checkpoint(rm_page, parsed, parsed.operands.size(), setup)) {
        return rm_page.usage_exit;
    }
    setup.options.one_file_system = parsed.has(one_file_system_option);
    raise_open_limit();
    const RemovalChoices choices = {
        parsed.has('r') || parsed.has('R'), parsed.has('d'), parsed.last_of({'f', 'i'}) == 'f',
        parsed.last_of({'f', 'i'}) == 'i',  parsed.has('v'), parsed.has(json_option)};
    if (spans_one_rank(HostRemover::asks(choices), {}) && setup.leave_to_rank_0()) return 0;
    Remover remover(choices, setup);
    if (rank_number() != 0) return remover.follow() ? 0 : 1;
    if (!remover.begin()) return 1;
    bool good = remover.remove_all(parsed.operands);
    if (!remover.finish()) good = false;
    if (remover.was_interrupted()) return exit_interrupted(setup);
    return good ? 0 : 1;
}

}  // namespace

const Command rm_command = {"rm", "remove files and trees", rm_page, command_rm, true};

}  // namespace warren::cli
