// SPDX-License-Identifier: Apache-2.0
// A directory with a remaining entry is not removed: its result records that, so only the original
// failure is reported.
#include "apps/warren/rm_host.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "apps/warren/directory.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

namespace {

/// The result of a directory.
struct Left {
    u64 entries;
};

void add_left(void* into, const void* from) {
    static_cast<Left*>(into)->entries += static_cast<const Left*>(from)->entries;
}

std::string without_slashes(const std::string& path) {
    const size_t end = path.find_last_not_of('/');
    return path.substr(0, end == path.npos ? 1 : end + 1);
}

bool is_root_directory(const struct stat& status) {
    struct stat root {};
    return ::lstat("/", &root) == 0 && root.st_dev == status.st_dev && root.st_ino == status.st_ino;
}

std::string_view kind_of(walk::Type type) {
    switch (type) {
        case walk::Type::regular:
            return "regular file";
        case walk::Type::directory:
            return "directory";
        case walk::Type::link:
            return "symbolic link";
        case walk::Type::fifo:
            return "fifo";
        case walk::Type::socket:
            return "socket";
        default:
            return "special file";
    }
}

}  // namespace

HostRemover::HostRemover(const RemovalChoices& choices, const WalkSetup& setup)
    : choices_(choices),
      setup_(setup),
      asks_about_protected_(asks(choices) && !choices.ask),
      limit_(setup.options) {
    // The kernel removes names of one directory one at a time, so threads gain nothing by sharing
    // it.
    setup_.options.share_directories = false;
    setup_.options.result_bytes = sizeof(Left);
    // Questions must come in an order that the user can follow.
    if (choices_.ask || asks_about_protected_) setup_.options.threads = 1;
}

bool HostRemover::asks(const RemovalChoices& choices) {
    return choices.ask || (!choices.force && ::isatty(STDIN_FILENO) == 1);
}

bool HostRemover::follow() {
    if (!begin()) return false;
    // Rank 0 sends the name of each tree, and an empty string after the last.
    while (true) {
        const std::string tree = share_over_ranks({});
        if (tree.empty()) return was_interrupted_ || conclude(0);
        walk_tree(tree);
    }
}

void HostRemover::fail(const std::string& path, i32 error) {
    failures_.add({path, "remove", error});
}

/// Whether a missing name is expected: with -f, or because the run that is being resumed has
/// removed it after its last checkpoint.
bool HostRemover::may_be_gone(i32 error) const {
    return error == ENOENT && (choices_.force || setup_.options.resume);
}

void HostRemover::remove(const std::string& operand) {
    struct stat status {};
    const std::string bare = without_slashes(operand);
    if (::lstat(operand.c_str(), &status) != 0) {
        const bool missing = errno == ENOENT || errno == ENOTDIR;
        // The earlier run was killed after it had removed everything.
        was_done_before_ = missing && setup_.options.resume;
        if (was_done_before_) return;
        if (!missing || !choices_.force) fail(operand, errno);
        return;
    }
    struct stat named {};
    if (bare != operand && ::lstat(bare.c_str(), &named) == 0 && S_ISLNK(named.st_mode)) {
        return fail(operand, ENOTDIR);  // the slash asks for the target of the link
    }
    const bool is_directory = S_ISDIR(status.st_mode);
    if (is_directory && is_root_directory(status)) {
        complain({"it is dangerous to remove ", quote(operand), ", the root directory: skipped"});
        return failures_.add({operand, "remove", EPERM});
    }
    if (is_directory && !choices_.recursive && !choices_.directories) return fail(operand, EISDIR);
    if (is_directory && !choices_.recursive) {
        if (choices_.ask && !ask({"remove directory ", quote(operand), "? "})) return;
        if (::unlinkat(AT_FDCWD, operand.c_str(), AT_REMOVEDIR) != 0) return fail(operand, errno);
        tally_.add(directories_count);
        if (choices_.verbose) print_line({"removed directory ", quote(operand)});
        return;
    }
    remove_tree(bare);
}

void HostRemover::remove_tree(const std::string& operand) {
    share_over_ranks(operand);
    walk_tree(operand);
}

void HostRemover::walk_tree(const std::string& operand) {
    walk::Meter meter;
    setup_.options.meter = &meter;
    walk::Callbacks callbacks;
    callbacks.visit = [&](const walk::Entry& entry) { return visit(entry); };
    callbacks.finish = [&](const walk::Finished& directory) { finish_directory(directory); };
    callbacks.merge = add_left;
    callbacks.fail = [&](const walk::Failure& failure) { note_unopened(failure); };
    callbacks.save = [&] {
        if (rank_number() == 0) finish_output();
        return tally_.save() + failures_.save();
    };
    callbacks.load = [&](std::string_view saved) {
        walk::ByteReader reader(saved, walk::Origin::file);
        return tally_.load(reader) && failures_.load(reader);
    };
    const Progress progress("removing " + quote(operand), meter);
    const walk::Totals totals = walk::walk(std::span(&operand, 1), setup_.options, callbacks);
    was_interrupted_ = was_interrupted_ || totals.interrupted;
}

/// A directory that cannot be read may still be empty: a failure shows when it is removed.
void HostRemover::note_unopened(const walk::Failure& failure) {
    if (walk::is_of_walk(failure)) return failures_.add(failure);
    if (std::string_view(failure.action) != "open") {
        if (!may_be_gone(failure.error)) fail(failure.path, failure.error);
        return;
    }
    std::lock_guard lock(mutex_);
    unopened_[failure.path] = failure.error;
}

/// Asks the user in the cases in which rm(1) asks.
bool HostRemover::may_remove(const walk::Entry& entry) {
    const bool is_directory = entry.type() == walk::Type::directory;
    const bool is_protected = asks_about_protected_ && entry.type() != walk::Type::link &&
                              ::faccessat(entry.directory(), entry.name(), W_OK, AT_EACCESS) != 0 &&
                              errno == EACCES;
    if (!choices_.ask && !is_protected) return true;
    const std::string path = quote(entry.path());
    const std::string_view guarded = is_protected ? "write-protected " : "";
    if (is_directory) return ask({"descend into ", guarded, "directory ", path, "? "});
    return ask({"remove ", guarded, kind_of(entry.type()), " ", path, "? "});
}

walk::Next HostRemover::visit(const walk::Entry& entry) {
    const bool asks = choices_.ask || asks_about_protected_;
    if (asks && !may_remove(entry)) {
        ++entry.result<Left>().entries;
        return walk::Next::prune;
    }
    if (entry.type() == walk::Type::directory) return walk::Next::go_on;
    limit_.take();
    if (::unlinkat(entry.directory(), entry.name(), 0) == 0) {
        tally_.add(files_count);
        if (choices_.verbose) print_line({"removed ", quote(entry.path())});
    } else if (const i32 error = errno; !may_be_gone(error)) {
        ++entry.result<Left>().entries;
        fail(std::string(entry.path()), error);
    }
    return walk::Next::go_on;
}

void HostRemover::finish_directory(const walk::Finished& directory) {
    Left& left = directory.result<Left>();
    if (left.entries != 0) return;  // the parent counts it too
    if (choices_.ask && !ask({"remove directory ", quote(directory.path()), "? "})) {
        ++left.entries;
        return;
    }
    // If its parent is gone, the run that is being resumed removed the directory.
    if (directory.directory() == -1 && setup_.options.resume) return;
    limit_.take();
    if (::unlinkat(directory.directory(), directory.name(), AT_REMOVEDIR) == 0) {
        tally_.add(directories_count);
        if (choices_.verbose) print_line({"removed directory ", quote(directory.path())});
        return;
    }
    i32 error = errno;
    if (may_be_gone(error)) return;
    ++left.entries;
    const std::string path = directory.path();
    {
        std::lock_guard lock(mutex_);
        const auto unopened = unopened_.find(path);
        if (unopened != unopened_.end()) error = unopened->second;
    }
    fail(path, error);
}

bool HostRemover::conclude(u64 others) {
    const bool is_good = failures_.finish();
    if (choices_.sums_up) tally_.print(failures_.count() + others);
    return is_good;
}

bool HostRemover::finish(u64 others) {
    share_over_ranks({});
    if (was_interrupted_) return true;  // exit_interrupted() reports it
    end_checkpoints(setup_, was_done_before_);
    return conclude(others);
}

}  // namespace warren::cli
