// SPDX-License-Identifier: Apache-2.0
// The large files of a copy. One is divided into parts, which any thread copies into the same
// temporary file. A part that fails removes the temporary file, so that nothing is left to rename
// when the directory finishes.
//
// Invariant: beside the temporary file lies another with what the source was before (Original). So
// all parts are of one file, and whichever process puts the copy in place gives it the attributes
// from before.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <set>

#include "apps/warren/copy_tree.hpp"
#include "apps/warren/file_parts.hpp"
#include "apps/warren/location.hpp"
#include "base/whole_io.hpp"
#include "base/workers.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

namespace {

constexpr u64 original_bytes = 84;

/// The name of the file with the Original.
std::string name_of_original(const std::string& temporary) {
    return temporary + "=";
}

template <class AnyOriginal, class Action>
void for_each_field(AnyOriginal& original, const Action& action) {
    action(original.kept.mode);
    action(original.kept.user);
    action(original.kept.group);
    action(original.kept.accessed);
    action(original.kept.modified);
    action(original.size);
    action(original.device);
    action(original.inode);
    action(original.changed);
}

Fault write_original(int directory, const std::string& temporary, const Original& original) {
    walk::ByteWriter writer;
    for_each_field(original, [&](const auto& field) { writer.put(field); });
    WARREN_CHECK(writer.bytes().size() == original_bytes);
    constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    Descriptor file(::openat(directory, name_of_original(temporary).c_str(), flags, 0600));
    if (!file) return {errno, "create regular file", true};
    const Errc code = write_fully(file.get(), 0, std::as_bytes(std::span(writer.bytes())));
    if (code != Errc::ok) return {static_cast<i32>(code), "write", true};
    return {file.close(), "close", true};
}

Fault read_original(int directory, const std::string& temporary, Original& original) {
    constexpr int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC;
    const Descriptor file(::openat(directory, name_of_original(temporary).c_str(), flags));
    if (!file) return {errno, "find the temporary copy of", true};
    std::array<char, original_bytes> bytes{};
    const auto target = std::as_writable_bytes(std::span(bytes));
    const Result<u64> got = warren::read_fully(file.get(), 0, target);
    if (!got) return {static_cast<i32>(got.code()), "read from", true};
    if (*got != original_bytes) return {EUCLEAN, "find the temporary copy of", true};
    walk::ByteReader reader({bytes.data(), bytes.size()}, walk::Origin::file);
    for_each_field(original, [&]<class Field>(Field& field) { field = reader.get<Field>(); });
    return {};
}

}  // namespace

/// Copies a large file by threads of its own or, if it has a directory whose finish will put it in
/// place, queues its parts (`waits`).
bool TreeCopy::fill_in_parts(const walk::Entry& entry, const Job& job, const Descriptor& to,
                             bool& waits) {
    waits = entry.depth() > 0;
    Fault fault;
    if (::ftruncate(to.get(), static_cast<off_t>(job.size)) != 0) {
        fault = {errno, "extend", true};
    } else if (waits) {
        fault = write_original(job.to.directory, job.temporary, job);
        if (fault) ::unlinkat(job.to.directory, name_of_original(job.temporary).c_str(), 0);
    } else {
        fault = copy_with_threads(job);
    }
    if (fault) fail(fault, job.below);
    if (fault || !waits) return !fault && !run_.is_cut();
    ++entry.result<State>().parts;
    add_file_parts(entry, job.size);
    return true;
}

void TreeCopy::copy_task(const walk::Task& task) {
    if (run_.is_cut()) return;
    const std::string folder(below_root(task.path, source_));
    const std::optional<FilePart> part = file_part_of(task);
    if (!part) {
        ++static_cast<State*>(task.result)->lost;
        return fail(false, walk::action_resume, EUCLEAN, folder);
    }
    const char* const name = part->name;
    const std::string below = folder.empty() ? name : joined(folder, name);
    const int to = tree_.directory(folder);
    if (to < 0) {
        ++static_cast<State*>(task.result)->lost;
        return fail(true, "open", errno, folder);
    }
    const std::string temporary = temporary_name(name);
    const Place at{to, temporary.c_str()};
    Original original;
    Fault fault = read_original(to, temporary, original);
    if (!fault && task.directory < 0) fault = {task.error, "open for reading"};
    if (!fault) {
        fault = copy_one_part({task.directory, name}, at, original, part->begin, part->end);
    }
    if (!fault) return;
    // If the file is gone, another part has failed, removed it and reported that; or another
    // process has removed it, which finish_parts() notices.
    const bool is_removed = ::unlinkat(to, temporary.c_str(), 0) == 0;
    if (!is_removed && errno == ENOENT) return;
    fail(fault, below);
    if (!is_removed) return;
    ::unlinkat(to, name_of_original(temporary).c_str(), 0);
    --static_cast<State*>(task.result)->parts;  // modulo 2^64, as the results are summed up
}

Fault TreeCopy::copy_one_part(const Place& from, const Place& to, const Original& original,
                              u64 begin, u64 end) {
    Descriptor target(::openat(to.directory, to.name, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (!target) return {errno, "open for writing", true};
    Descriptor source;
    struct statx status {};
    Fault fault = open_source(from, original, source, status);
    if (!fault) {
        fault = copy_part(source.get(), target.get(), begin, end, written(true), in_kernel());
    }
    if (!fault && run_.rules.verify) fault = check(source.get(), target.get(), begin, end);
    if (!fault) fault = {target.close(), "close", true};  // has the error of a delayed write
    return fault;
}

Fault TreeCopy::copy_with_threads(const Job& job) {
    std::atomic<u64> next{0};
    std::atomic<bool> failed{false};
    Fault first;  // written by the thread that sets `failed`
    const auto work = [&](u32) {
        while (!failed.load(std::memory_order_relaxed) && !run_.is_cut()) {
            const u64 begin = next.fetch_add(part_bytes, std::memory_order_relaxed);
            if (begin >= job.size) return;
            const u64 end = std::min(begin + part_bytes, job.size);
            const Fault fault = copy_one_part(job.from, job.at(), job, begin, end);
            if (fault && !failed.exchange(true, std::memory_order_relaxed)) first = fault;
        }
    };
    Workers(walk_threads(run_.setup.options)).run_last(work);
    return first;
}

/// Puts the large files of a directory in place, after all their parts were copied: as many as
/// `parts`. Removes what cannot be put in place: all of them if the source is -1. Reports those
/// that another process has removed, except in a resumed run, before which they may have been put
/// in place.
void TreeCopy::finish_parts(int source, u64 parts, std::string_view below) {
    const Descriptor target = tree_.open(below);
    std::vector<std::string> names;
    int error = target ? list_names(target.get(), names) : errno;
    if (error != 0) return fail(true, "read", error, below);
    std::set<std::string> waiting;
    for (std::string& name : names) {
        if (name.starts_with(run_.mark + "-") && name != links_folder_name(run_.mark)) {
            waiting.insert(std::move(name));
        }
    }
    names.clear();
    const bool may_be_incomplete = source < 0 || run_.is_cut();
    const bool reports_missing = !may_be_incomplete && !run_.is_resumed();
    if (!may_be_incomplete) error = list_names(source, names);
    if (error != 0) fail(false, "read", error, below);
    for (const std::string& name : names) {
        const std::string temporary = temporary_name(name);
        const std::string inner = below.empty() ? name : joined(below, name);
        if (waiting.contains(temporary)) {
            finish_large({source, name.c_str()}, {target.get(), name.c_str()}, temporary, inner);
        } else if (reports_missing && waiting.contains(name_of_original(temporary))) {
            fail(true, "find the temporary copy of", ENOENT, inner);
        }
    }
    const auto is_one_of_two = [&](const std::string& name) {
        return name.ends_with('=') && waiting.contains(name.substr(0, name.size() - 1));
    };
    const auto pairs = static_cast<u64>(std::ranges::count_if(waiting, is_one_of_two));
    if (reports_missing && waiting.size() - pairs < parts) {
        fail(true, "find all temporary copies in", ENOENT, below);
    }
    for (const std::string& name : waiting)
        ::unlinkat(target.get(), name.c_str(), 0);
}

/// Puts one large file in place; the caller removes its temporary file if that failed.
void TreeCopy::finish_large(const Place& from, const Place& to, const std::string& temporary,
                            const std::string& below) {
    Original original;
    Descriptor source;
    struct statx status {};
    Fault fault = read_original(to.directory, temporary, original);
    if (!fault) fault = open_source(from, original, source, status);
    if (fault) return fail(fault, below);
    Job job = job_of(from, status, below);
    static_cast<Original&>(job) = original;
    job.to = to;
    job.temporary = temporary;
    if (!look(job)) return;
    compare_original(job, source.get());
    finish_file(job, source.get(), Descriptor());
}

/// Removes temporary files that a killed run has left: everything that belongs into the directory
/// is in place by then.
void TreeCopy::clear_parts(std::string_view below) {
    const Descriptor target = tree_.open(below);
    std::vector<std::string> names;
    if (!target || list_names(target.get(), names) != 0) return;  // reported elsewhere
    for (const std::string& name : names) {
        if (name.starts_with(run_.mark + "-") && name != links_folder_name(run_.mark)) {
            ::unlinkat(target.get(), name.c_str(), 0);
        }
    }
}

}  // namespace warren::cli
