// SPDX-License-Identifier: Apache-2.0
// The files of a copy: what is copied, and how a complete temporary file gets its attributes and
// its name. copy_tree_parts.cpp copies large files.
#include <cerrno>
#include <cstdio>

#include "apps/warren/copy_tree.hpp"
#include "apps/warren/file_parts.hpp"
#include "apps/warren/location.hpp"
#include "warren/hash.hpp"

namespace warren::cli {

namespace {

constexpr int create_flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;

/// The source is no longer the file, or in the state, that the copying began with.
constexpr Fault source_changed{EBUSY, "copy while it changes"};

bool same_time(const timespec& one, const timespec& two) {
    return one.tv_sec == two.tv_sec && one.tv_nsec == two.tv_nsec;
}

bool is_later(const timespec& one, const timespec& two) {
    return one.tv_sec != two.tv_sec ? one.tv_sec > two.tv_sec : one.tv_nsec > two.tv_nsec;
}

int read_link(const Place& place, std::string& target) {
    target.resize(256);
    while (true) {
        const ssize_t size =
            ::readlinkat(place.directory, place.name, target.data(), target.size());
        if (size < 0) return errno;
        if (static_cast<size_t>(size) < target.size()) {
            target.resize(static_cast<size_t>(size));
            return 0;
        }
        target.resize(target.size() * 4);
    }
}

int read_status(int file, struct statx& status) {
    return ::statx(file, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &status) == 0 ? 0 : errno;
}

/// Creates a new file, replacing one that an earlier run with the same mark has left.
Descriptor create_file(const Place& place, u32 mode) {
    const int made = ::openat(place.directory, place.name, create_flags, mode);
    if (made >= 0 || errno != EEXIST) return Descriptor(made);
    if (::unlinkat(place.directory, place.name, 0) != 0) return Descriptor();
    return Descriptor(::openat(place.directory, place.name, create_flags, mode));
}

}  // namespace

/// At most 255 bytes for any name, and the same in every process of the run.
std::string TreeCopy::temporary_name(std::string_view name) const {
    u8 digest[hash::most_digest_bytes];
    const std::string text = run_.mark + std::string(name);
    const auto bytes = std::as_bytes(std::span(text));
    static_cast<void>(
        hash::hash_one(hash::Algorithm::blake3, bytes, digest, {1, hash::Processor::cpu}));
    std::string result = run_.mark + "-";
    for (const u8 byte : std::span(digest).first(16)) {
        char digits[4];
        std::snprintf(digits, sizeof digits, "%02x", byte);
        result += digits;
    }
    return result;
}

/// Whether the rules allow the target to be replaced by this source.
bool TreeCopy::is_wanted(Job& job) {
    if (!job.existing.found) return true;
    if (run_.rules.no_clobber) return false;
    if (run_.rules.update && !is_later(job.kept.modified, job.existing.status.st_mtim)) {
        return false;
    }
    if (!job.existing.is_regular() || run_.rules.mirror) return true;
    // Renaming would replace a file that this user may not write, which cp must not do without -f.
    if (::faccessat(job.to.directory, job.to.name, W_OK, AT_EACCESS) == 0) return true;
    if (run_.rules.force) {
        job.existing.found = false;  // as if it had been removed before
        return true;
    }
    fail(true, "create regular file", errno, job.below);
    return false;
}

/// Whether the target equals the source already, by the criteria of a mirror.
bool TreeCopy::is_equal(const Job& job) {
    const struct stat& there = job.existing.status;
    if (!job.existing.found || (there.st_mode & S_IFMT) != (job.kept.mode & S_IFMT)) return false;
    if (S_ISLNK(job.kept.mode)) {
        std::string one;
        std::string two;
        return read_link(job.from, one) == 0 && read_link(job.to, two) == 0 && one == two;
    }
    if (S_ISCHR(job.kept.mode) || S_ISBLK(job.kept.mode)) {
        return there.st_rdev == job.special_device;
    }
    if (!S_ISREG(job.kept.mode)) return true;
    if (static_cast<u64>(there.st_size) != job.size) return false;
    if (!run_.rules.contents) return same_time(there.st_mtim, job.kept.modified);
    const Descriptor from(::openat(job.from.directory, job.from.name, open_flags()));
    const Descriptor to(::openat(job.to.directory, job.to.name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!from || !to) return false;  // the copy reports it
    std::optional<Difference> difference;
    return !compare_part(from.get(), to.get(), 0, to_the_end, difference) && !difference;
}

/// Brings the attributes of an equal target up to date; false if it must be copied after all.
bool TreeCopy::settle_equal(const Job& job) {
    const struct stat& there = job.existing.status;
    if (job.shared && !run_.rules.dry_run && !register_link(job, job.to.name)) return false;
    const u32 bits = 07777;
    const bool same_mode = (there.st_mode & bits) == (job.kept.mode & bits);
    if ((same_mode || S_ISLNK(job.kept.mode)) && there.st_uid == job.kept.user &&
        there.st_gid == job.kept.group && same_time(there.st_mtim, job.kept.modified) &&
        same_extended_attributes(job.from, job.to)) {
        return true;
    }
    if (run_.rules.dry_run) return true;
    const Fault fault = keep_attributes(job.from, job.to, job.kept, run_.rules.keeps);
    if (fault) fail(fault, job.below);
    return true;
}

/// Sets the name of the file that stays beside the target until it is complete.
void TreeCopy::name_temporary(const walk::Entry& entry, Job& job) const {
    job.temporary = temporary_name(last_component(job.to.name));
    if (entry.depth() > 0) return;
    const std::string_view folder = tree_.root();
    const size_t slash = folder.rfind('/');
    if (slash != folder.npos) job.temporary.insert(0, folder.substr(0, slash + 1));
}

void TreeCopy::visit_other(const walk::Entry& entry, Job& job) {
    if (run_.is_resumed() && !run_.rules.dry_run) {
        // A killed run may have left its temporary file.
        name_temporary(entry, job);
        discard(job);
    }
    if (!make_way(job) || !is_wanted(job)) return;
    if (run_.rules.mirror && is_equal(job) && settle_equal(job)) return;
    if (run_.rules.dry_run) {
        count(job);
        return tell(entry.worker(), job.below);
    }
    run_.limit.take();
    name_temporary(entry, job);
    if (job.shared && link_to_earlier(job)) {
        run_.tally.add(made_links);
        return tell(entry.worker(), job.below);
    }
    const bool good = S_ISREG(job.kept.mode) ? copy_regular(entry, job) : copy_special(job);
    if (good) tell(entry.worker(), job.below);
}

bool TreeCopy::copy_special(const Job& job) {
    const Place at = job.at();
    const auto made = [&] {
        if (S_ISLNK(job.kept.mode)) {
            std::string target;
            const int error = read_link(job.from, target);
            if (error != 0) fail(false, "read symbolic link", error, job.below);
            if (error != 0) return false;
            if (::symlinkat(target.c_str(), at.directory, at.name) == 0) return true;
            fail(true, "create symbolic link", errno, job.below);
            return false;
        }
        const u32 mode = job.kept.mode & (S_IFMT | 07777);
        if (::mknodat(at.directory, at.name, mode, job.special_device) == 0) return true;
        fail(true, "create special file", errno, job.below);
        return false;
    };
    return made() && finish_file(job, -1, Descriptor());
}

/// Removes the temporary file; returns false, as the result of a copy that failed.
bool TreeCopy::discard(const Job& job) {
    ::unlinkat(job.to.directory, job.temporary.c_str(), 0);
    return false;
}

/// Opens the source; a fault if it is another file than `original`.
Fault TreeCopy::open_source(const Place& from, const Original& original, Descriptor& file,
                            struct statx& status) const {
    file = Descriptor(::openat(from.directory, from.name, open_flags()));
    const int error = file ? read_status(file.get(), status) : errno;
    if (error != 0) return {error, "open for reading"};
    const bool is_same =
        status.stx_ino == original.inode && walk::device_of(status) == original.device;
    return is_same ? Fault{} : source_changed;
}

/// Reports a source that has changed since its copying began. Its copy then gets the time of
/// modification from before whatever else is kept, so that a later sync does not skip it.
void TreeCopy::compare_original(Job& job, int from) {
    struct statx status {};
    if (const int error = read_status(from, status)) return fail({error, "stat"}, job.below);
    const Original now = original_of(status);
    const bool has_same_time = same_time(now.kept.modified, job.kept.modified);
    if (has_same_time && now.size == job.size && same_time(now.changed, job.changed)) return;
    fail(source_changed, job.below);
    job.has_changed = true;
    if (has_same_time) --job.kept.modified.tv_sec;  // it was set back
}

bool TreeCopy::copy_regular(const walk::Entry& entry, Job& job) {
    Descriptor from;
    struct statx status {};
    if (const Fault fault = open_source(job.from, job, from, status)) {
        fail(fault, job.below);
        return false;
    }
    static_cast<Original&>(job) = original_of(status);
    job.has_holes = is_sparse(status);
    Descriptor to = create_file(job.at(), made_mode(job));
    if (!to) {
        fail(true, "create regular file", errno, job.below);
        return false;
    }
    bool waits = false;
    if (!fill(entry, job, from.get(), to, waits)) return discard(job);
    if (waits) return true;  // put in place when the directory finishes
    compare_original(job, from.get());
    return finish_file(job, from.get(), std::move(to));
}

/// Copies the contents, or queues the parts of a large file (`waits`).
bool TreeCopy::fill(const walk::Entry& entry, const Job& job, int from, const Descriptor& to,
                    bool& waits) {
    bool done = false;
    Place at = job.at();
    at.file = to.get();
    if (const Fault fault = share(job, from, at, done)) {
        fail(fault, job.below);
        return false;
    }
    if (done) return true;
    if (job.size >= large_bytes) return fill_in_parts(entry, job, to, waits);
    const Written what = job.size == 0 ? Written::all : written(job.has_holes);
    if (what != Written::all && ::ftruncate(to.get(), static_cast<off_t>(job.size)) != 0) {
        fail(true, "extend", errno, job.below);
        return false;
    }
    const u64 end = job.size == 0 ? to_the_end : job.size;  // files of /proc have no size
    Fault fault = copy_part(from, to.get(), 0, end, what, in_kernel());
    if (!fault && run_.rules.verify) fault = check(from, to.get(), 0, end);
    if (fault) fail(fault, job.below);
    return !fault;
}

/// Shares blocks if wanted and possible; a fault if sharing was required and failed.
Fault TreeCopy::share(const Job& job, int from, const Place& to, bool& done) {
    const TreeCopyRules& rules = run_.rules;
    const bool may = rules.reflink != Reflink::never && rules.sparse == Sparse::automatic;
    if (!may || job.size == 0) return {};
    return run_.reflinks.copy(from, to, rules.reflink == Reflink::always, done);
}

/// The kernel must not copy if blocks must not be shared, or if holes are not wanted.
InKernel TreeCopy::in_kernel() const {
    const TreeCopyRules& rules = run_.rules;
    const bool may = rules.reflink != Reflink::never && rules.sparse != Sparse::never;
    return may ? InKernel::yes : InKernel::no;
}

/// Reads both files again, the target from its device, and compares them.
Fault TreeCopy::check(int from, int to, u64 begin, u64 end) {
    if (::fdatasync(to) != 0) return {errno, "write", true};
    static_cast<void>(::posix_fadvise(to, 0, 0, POSIX_FADV_DONTNEED));
    std::optional<Difference> difference;
    if (const Fault fault = compare_part(from, to, begin, end, difference)) return fault;
    if (difference) return {EIO, "verify", true};
    return {};
}

/// Which bytes of a file are written; all of them if it has no holes.
Written TreeCopy::written(bool has_holes) const {
    if (run_.rules.sparse == Sparse::always) return Written::nonzero;
    return has_holes && run_.rules.sparse == Sparse::automatic ? Written::data : Written::all;
}

/// What a copy keeps; the times in any case if its source has changed meanwhile.
Keeps TreeCopy::keeps_of(const Job& job) const {
    Keeps keeps = run_.rules.keeps;
    keeps.times = keeps.times || job.has_changed;
    return keeps;
}

/// The mode that a file is created with: no other user can read it before its owner is set.
u32 TreeCopy::made_mode(const Job& job) const {
    const Keeps& keeps = run_.rules.keeps;
    return keeps.mode || keeps.owner ? 0600 : job.kept.mode & 0777;
}

/// Sets the attributes of the temporary file before it is renamed. `writes_into`: it could not get
/// the owner of the file that it replaces, so its contents must be written into that file instead.
Fault TreeCopy::set_attributes(const Job& job, const Place& from, const Place& at,
                               bool& writes_into) {
    const Keeps keeps = keeps_of(job);
    // Attributes that are not copied stay those of the replaced file, as if it had been written
    // into.
    const bool replaces = job.existing.is_regular() && S_ISREG(job.kept.mode);
    const struct stat& there = job.existing.status;
    u32 mode = replaces ? there.st_mode & 07777 : job.kept.mode & 0777 & ~process_umask();
    const bool is_root = ::geteuid() == 0;
    if (replaces && !(keeps.owner && (is_root || run_.rules.mirror))) {
        const auto give = [&](u32 user, u32 group) {
            return ::fchownat(at.directory, at.name, user, group, AT_SYMLINK_NOFOLLOW) == 0;
        };
        writes_into = !give(there.st_uid, there.st_gid) &&
                      !(keeps.owner && give(job.kept.user, job.kept.group));
        if (writes_into) return {};
        // A write by a user other than root would clear these bits.
        if (!is_root) mode &= (mode & S_IXGRP) != 0 ? 01777 : 03777;
    }
    if (replaces && !run_.rules.mirror) {
        if (const Fault fault = keep_replaced_attributes(job.to, at)) return fault;
    }
    if (const Fault fault = keep_attributes(from, at, job.kept, keeps)) return fault;
    const bool is_as_made = !replaces && (!keeps.owner || !S_ISREG(job.kept.mode));
    if (keeps.mode || is_as_made) return {};
    return {change_mode(at, mode), "set the mode of", true};
}

/// Puts a complete copy in place. `from` and `to` are the open files, or none.
bool TreeCopy::finish_file(const Job& job, int from, Descriptor to) {
    Place source = job.from;
    Place at = job.at();
    source.file = from;
    at.file = to.get();
    bool writes_into = false;
    Fault fault = set_attributes(job, source, at, writes_into);
    if (const int error = to.close(); error != 0 && !fault) fault = {error, "close", true};
    if (!fault) return writes_into ? write_into(job) : put_in_place(job);
    fail(fault, job.below);
    return discard(job);
}

/// Writes the complete copy into the existing target file, so that the kernel decides whether its
/// set-id bits are cleared.
bool TreeCopy::write_into(const Job& job) {
    bool is_incomplete = false;
    const auto copy = [&]() -> Fault {
        const Place at = job.at();
        const Descriptor from(::openat(at.directory, at.name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
        if (!from) return {errno, "open the copy for", true};
        constexpr int flags = O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
        Descriptor to(::openat(job.to.directory, job.to.name, flags));
        if (!to) return {errno, "create regular file", true};
        is_incomplete = true;
        bool done = false;
        const Place there{job.to.directory, job.to.name, to.get()};
        if (const Fault fault = share(job, from.get(), there, done)) return fault;
        struct stat status {};
        if (::fstat(from.get(), &status) != 0 || ::ftruncate(to.get(), status.st_size) != 0) {
            return {errno, "extend", true};
        }
        const bool has_holes = status.st_blocks * 512 < status.st_size;
        const u64 begin = done ? static_cast<u64>(status.st_size) : 0;
        const Fault fault = copy_part(from.get(), to.get(), begin, static_cast<u64>(status.st_size),
                                      has_holes ? Written::data : Written::all, in_kernel());
        if (fault) return {fault.error, fault.action, true};  // both files are at the target
        if (const int error = to.close()) return {error, "close", true};
        is_incomplete = false;
        return keep_attributes(job.from, job.to, job.kept, keeps_of(job));
    };
    const Fault fault = copy();
    static_cast<void>(discard(job));
    if (is_incomplete) make_older(job);
    if (fault) {
        fail(fault, job.below);
        return false;
    }
    count(job);
    return true;
}

/// Makes an incomplete target older than its source, so that a later copy with -u does not skip it.
/// Only the target's owner and root may do that.
void TreeCopy::make_older(const Job& job) {
    const timespec time{job.kept.modified.tv_sec - 1, job.kept.modified.tv_nsec};
    const timespec times[] = {{0, UTIME_OMIT}, time};
    if (::utimensat(job.to.directory, job.to.name, times, AT_SYMLINK_NOFOLLOW) == 0) return;
    fail(true, "reset the time of incomplete", errno, job.below);
}

/// Renames a complete copy to its target, and links it with the other names of its source.
bool TreeCopy::put_in_place(const Job& job) {
    if (job.shared && !register_link(job, job.temporary.c_str()) && link_to_earlier(job)) {
        discard(job);  // another name was registered first; the target is a link to it now
        run_.tally.add(made_links);
        return true;
    }
    const Place at = job.at();
    if (::renameat(at.directory, at.name, job.to.directory, job.to.name) == 0) {
        count(job);
        return true;
    }
    fail(true, "rename into place", errno, job.below);
    return discard(job);
}

}  // namespace warren::cli
