// SPDX-License-Identifier: Apache-2.0
// The directories of a copy: created when the walk meets them; they get their final mode, owner and
// times when everything below is done. A mirror then also removes what the source does not have.
#include "apps/warren/copy_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>

#include "apps/fuse/mount_table.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

namespace {

/// A name prefix that no other run uses; rank 0 chooses it for all ranks.
std::string make_mark() {
    char text[32];
    std::snprintf(text, sizeof text, ".warren-%08x", std::random_device()());
    return text;
}

/// Whether a file system is of automount(8), which mounts others on its directories.
bool is_automounter(u64 device) {
    return std::ranges::any_of(fuse::read_mount_table(), [&](const fuse::MountedPlace& place) {
        return place.type == "autofs" && makedev(place.device_major, place.device_minor) == device;
    });
}

}  // namespace

CopyRun::CopyRun(const TreeCopyRules& rules_given, const WalkSetup& setup_given)
    : rules(rules_given),
      setup(setup_given),
      limit(setup_given.options),
      lines(setup_given.options),
      mark(make_mark()) {}

TreeCopy::TreeCopy(CopyRun& run, std::string source, std::string target, std::string links_folder)
    : run_(run),
      source_(std::move(source)),
      links_folder_(std::move(links_folder)),
      tree_(std::move(target)) {}

bool TreeCopy::copy() {
    walk::Options options = run_.setup.options;
    options.result_bytes = sizeof(State);
    walk::Callbacks callbacks;
    callbacks.visit = [&](const walk::Entry& entry) { return visit(entry); };
    callbacks.finish = [&](const walk::Finished& directory) { finish_directory(directory); };
    callbacks.merge = merge;
    callbacks.fail = [&](const walk::Failure& failure) { run_.failures.add(failure); };
    callbacks.work = [&](const walk::Task& task) { copy_task(task); };
    callbacks.save = [&] {
        run_.lines.flush();
        if (rank_number() == 0) finish_output();
        return run_.tally.save() + run_.failures.save();
    };
    callbacks.load = [&](std::string_view saved) {
        walk::ByteReader reader(saved, walk::Origin::file);
        return run_.tally.load(reader) && run_.failures.load(reader);
    };
    const walk::Totals totals = walk::walk(std::span(&source_, 1), options, callbacks);
    return !totals.interrupted;
}

void TreeCopy::merge(void* into, const void* from) {
    static_cast<State*>(into)->parts += static_cast<const State*>(from)->parts;
    static_cast<State*>(into)->lost += static_cast<const State*>(from)->lost;
}

std::string TreeCopy::source_path(std::string_view below) const {
    return below.empty() ? source_ : joined(source_, below);
}

std::string TreeCopy::target_path(std::string_view below) const {
    return below.empty() ? tree_.root() : joined(tree_.root(), below);
}

void TreeCopy::fail(bool at_target, const char* action, i32 error, std::string_view below) {
    run_.failures.add({at_target ? target_path(below) : source_path(below), action, error});
}

void TreeCopy::fail(const Fault& fault, std::string_view below) {
    fail(fault.at_target, fault.action, fault.error, below);
}

void TreeCopy::tell(u32 worker, std::string_view below) {
    if (!run_.rules.verbose) return;
    std::string& text = run_.lines.of(worker);
    if (run_.rules.mirror) {
        append_name(text, below.empty() ? std::string_view(tree_.root()) : below);
    } else {
        text += quote(source_path(below)) + " -> " + quote(target_path(below));
    }
    text += '\n';
    run_.lines.wrote(worker);
}

/// Counts a name that is in place.
void TreeCopy::count(const Job& job) {
    if (!S_ISREG(job.kept.mode)) return run_.tally.add(made_others);
    run_.tally.add(copied_files);
    run_.tally.add(copied_bytes, job.size);
}

Original TreeCopy::original_of(const struct statx& status) const {
    Original original{kept_of(status),
                      status.stx_size,
                      walk::device_of(status),
                      status.stx_ino,
                      {status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec}};
    if (run_.rules.default_modes) {
        const u32 kind = original.kept.mode & S_IFMT;
        original.kept.mode = kind | (kind == S_IFDIR ? 0777 : 0666);
    }
    return original;
}

TreeCopy::Job TreeCopy::job_of(const Place& from, const struct statx& status,
                               std::string_view below) const {
    Job job;
    static_cast<Original&>(job) = original_of(status);
    job.from = from;
    job.special_device = makedev(status.stx_rdev_major, status.stx_rdev_minor);
    job.shared = run_.rules.keep_links && status.stx_nlink > 1 && !S_ISDIR(status.stx_mode);
    job.has_holes = is_sparse(status);
    job.is_mounted_on_use = (status.stx_attributes & STATX_ATTR_AUTOMOUNT) != 0;
    job.below = below;
    return job;
}

/// Reads what exists at the target; false, after a report, if that fails.
bool TreeCopy::look(Job& job) {
    if (job.to.directory == -1) return run_.rules.dry_run;
    const int error = look_at(job.to, job.existing.status);
    job.existing.found = error == 0;
    if (error == 0 || error == ENOENT) return true;
    fail(true, "access", error, job.below);
    return false;
}

walk::Next TreeCopy::visit(const walk::Entry& entry) {
    // Prune rather than stop: when a directory finishes it must still remove incomplete files.
    if (run_.is_cut()) return walk::Next::prune;
    const struct statx* status = entry.status(STATX_BASIC_STATS);
    if (status == nullptr) return walk::Next::prune;
    const std::string_view below = below_root(entry.path(), source_);
    Job job = job_of({entry.directory(), entry.name()}, *status, below);
    if (entry.depth() == 0) {
        job.to = {AT_FDCWD, tree_.root().c_str()};
    } else {
        job.to = {tree_.directory(without_last(below)), entry.name()};
        if (job.to.directory < 0 && !run_.rules.dry_run) {
            fail(true, "open", errno, without_last(below));
            return walk::Next::prune;
        }
    }
    if (!look(job)) return walk::Next::prune;
    const Existing& existing = job.existing;
    if (existing.found && existing.status.st_ino == job.inode &&
        device_of(existing.status) == job.device) {
        fail(false, "copy onto itself", EINVAL, below);
        return walk::Next::prune;
    }
    if (entry.type() == walk::Type::directory) return visit_directory(entry, job);
    visit_other(entry, job);
    return walk::Next::go_on;
}

/// Removes a target of another type, if the rules allow it.
bool TreeCopy::make_way(Job& job) {
    if (!job.existing.found) return true;
    const bool to_directory = S_ISDIR(job.kept.mode);
    if (job.existing.is_directory() == to_directory) return true;
    const bool may_go = run_.rules.mirror && (to_directory || run_.rules.delete_others);
    if (!may_go) {
        const char* action = to_directory ? "overwrite non-directory with directory"
                                          : "overwrite directory with non-directory";
        fail(true, action, to_directory ? ENOTDIR : EISDIR, job.below);
        return false;
    }
    delete_tree(job.to, job.below);
    job.existing.found = false;
    return true;
}

walk::Next TreeCopy::visit_directory(const walk::Entry& entry, Job& job) {
    if (!run_.rules.recursive) {
        fail(false, "omit", EISDIR, job.below);
        return walk::Next::prune;
    }
    if (entry.depth() > 0 && tree_.is_root(job.device, job.inode)) {
        fail(false, "copy into itself", ELOOP, job.below);
        return walk::Next::prune;
    }
    if (!make_way(job)) return walk::Next::prune;
    State& state = entry.own_result<State>();
    state.is_met = 1;
    const u32 mode = run_.rules.keeps.mode ? 0700 : (job.kept.mode & 01777) | 0700;
    state.is_new = job.existing.found ? 0 : 1;
    state.kept = job.kept;
    state.device = job.device;
    state.inode = job.inode;
    state.is_mounted_on_use = job.is_mounted_on_use ? 1 : 0;
    if (run_.is_resumed() && job.existing.found) {
        // A resumed run may have created it after its last checkpoint.
        const u32 as_made = mode & ~process_umask();
        state.is_new = (job.existing.status.st_mode & 01777) == as_made ? 1 : 0;
    }
    if (job.existing.found) return walk::Next::go_on;
    tell(entry.worker(), job.below.empty() || !run_.rules.mirror ? job.below : job.below + "/");
    if (!run_.rules.dry_run) run_.limit.take();
    if (run_.rules.dry_run || ::mkdirat(job.to.directory, job.to.name, mode) == 0) {
        run_.tally.add(made_directories);
        return walk::Next::go_on;
    }
    fail(true, "create directory", errno, job.below);
    state = {};
    return walk::Next::prune;
}

void TreeCopy::finish_directory(const walk::Finished& directory) {
    State& state = directory.result<State>();
    const u64 parts = std::exchange(state.parts, 0);  // not to be added to the parent's
    const u64 lost = std::exchange(state.lost, 0);
    if (state.is_met == 0 || (run_.is_cut() && parts == 0)) return;
    const std::string path = directory.path();
    const std::string_view below = below_root(path, source_);
    const Place from{directory.directory(), directory.name()};
    const bool clears = run_.rules.delete_others && directory.complete() && !run_.is_cut();
    if (parts == 0 && run_.is_resumed() && !run_.rules.dry_run) clear_parts(below);
    if (parts > 0 || clears) {
        const Descriptor source = open_again(directory, open_flags());
        const int error = errno;
        if (parts > 0) finish_parts(lost == 0 ? source.get() : -1, parts, below);
        if (!source) return fail(false, "open", error, below);
        if (clears && !is_as_visited(source.get(), state))
            return fail(false, "open", ESTALE, below);
        if (clears) delete_others(source.get(), below);
    }
    const Keeps& keeps = run_.rules.keeps;
    if (run_.rules.dry_run || run_.is_cut()) return;
    if (state.is_new == 0 && !keeps.any()) return;
    Descriptor above;
    Place to{AT_FDCWD, tree_.root().c_str()};
    if (!below.empty()) {
        above = tree_.open(without_last(below));
        if (!above) return fail(true, "open", errno, without_last(below));
        to = {above.get(), directory.name()};
    }
    if (const Fault fault = keep_attributes(from, to, state.kept, keeps)) fail(fault, below);
    if (keeps.mode || state.is_new == 0) return;
    const u32 mode = state.kept.mode & 01777 & ~process_umask();
    if ((mode & 0700) == 0700) return;  // the mode it was created with
    if (const int error = change_mode(to, mode)) fail(true, "set the mode of", error, below);
}

/// Whether the walk has read the directory that it had visited, and not the one below a file system
/// that was unmounted in between. It differs, too, if to open it has mounted a file system on it.
bool TreeCopy::is_as_visited(int source, const State& state) {
    struct stat status {};
    const bool is_same = ::fstat(source, &status) == 0 && status.st_ino == state.inode &&
                         device_of(status) == state.device;
    return is_same || state.is_mounted_on_use != 0 || is_automounter(state.device);
}

/// Removes entries that the source directory does not have.
void TreeCopy::delete_others(int source, std::string_view below) {
    const Descriptor target = tree_.open(below);
    if (!target && run_.rules.dry_run) return;  // it would be new
    std::vector<std::string> names;
    int error = target ? list_names(target.get(), names) : errno;
    if (error != 0) return fail(true, "read", error, below);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
        if (name.starts_with(run_.mark)) continue;
        struct stat status {};
        error = look_at({source, name.c_str()}, status);
        if (error == 0) continue;
        const std::string inner = below.empty() ? name : joined(below, name);
        if (error != ENOENT) {
            fail(false, "stat", error, inner);
            continue;
        }
        delete_tree({target.get(), name.c_str()}, inner);
    }
}

/// Removes the entry with everything below it or, in a dry run, prints what would be removed.
void TreeCopy::delete_tree(const Place& place, const std::string& below) {
    const std::string root = path_for_system(place);
    const auto remove = [&](int directory, const char* name, std::string_view path, int flags) {
        const std::string inner(below + std::string(path.substr(root.size())));
        if (!run_.rules.dry_run) run_.limit.take();
        const bool gone =
            run_.rules.dry_run || ::unlinkat(directory, name, flags) == 0 || errno == ENOENT;
        if (!gone) return fail(true, "remove", errno, inner);
        run_.tally.add(removed_names);
        if (run_.rules.verbose) {
            print_line({"deleting ", output_name(inner), flags == AT_REMOVEDIR ? "/" : ""});
        }
    };
    walk::Options options;
    options.threads = 1;
    walk::Callbacks callbacks;
    callbacks.visit = [&](const walk::Entry& entry) {
        if (entry.type() != walk::Type::directory) {
            remove(entry.directory(), entry.name(), entry.path(), 0);
        }
        return walk::Next::go_on;
    };
    callbacks.finish = [&](const walk::Finished& directory) {
        remove(directory.directory(), directory.name(), directory.path(), AT_REMOVEDIR);
    };
    callbacks.fail = [&](const walk::Failure& failure) {
        const std::string inner = below + failure.path.substr(root.size());
        fail(true, failure.action, failure.error, inner);
    };
    walk::walk(std::span(&root, 1), options, callbacks);
}

int TreeCopy::open_flags() const {
    const bool follows = run_.setup.options.follow != walk::Follow::none;
    return O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follows ? 0 : O_NOFOLLOW);
}

}  // namespace warren::cli
