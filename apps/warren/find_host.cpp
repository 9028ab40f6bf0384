// SPDX-License-Identifier: Apache-2.0
// With -depth a directory is tested when everything below it is done, by the thread that finished
// last; all other entries are tested as the walk meets them.
#include "apps/warren/find_host.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "apps/warren/host_attributes.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/listing.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

namespace {

/// Attributes of a directory that the walk has finished.
class FinishedAttributes : public AttributeSource {
 public:
    FinishedAttributes(const walk::Finished& directory, int flags)
        : directory_(directory), flags_(flags) {}
    i32 error = 0;  // the reason why there are none
    bool load(Attributes& attributes, u64& sectors) override {
        struct statx status {};
        if (::statx(directory_.directory(), directory_.name(), flags_, host_fields, &status) != 0) {
            error = errno;
            return false;
        }
        attributes = attributes_of(status);
        sectors = status.stx_blocks;
        return true;
    }

 private:
    const walk::Finished& directory_;
    int flags_;
};

bool is_empty_directory(int directory, const char* name) {
    const int own = ::openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* stream = own < 0 ? nullptr : ::fdopendir(own);
    if (stream == nullptr) {
        if (own >= 0) ::close(own);
        return false;
    }
    u32 names = 0;
    while (names < 3 && ::readdir(stream) != nullptr)
        ++names;
    ::closedir(stream);
    return names == 2;
}

}  // namespace

/// Answers questions about one entry.
class HostSearch::Place : public FindPlace {
 public:
    Place(HostSearch& search, int directory, const char* name, std::string& path)
        : search_(search), directory_(directory), name_(name), path_(path) {}

    std::optional<u32> worker;  // whose output precedes that of a command

    bool is_empty(const Found& /*found*/) override { return is_empty_directory(directory_, name_); }
    const std::string& path(const Found& /*found*/) override { return path_; }
    bool remove(const Found& found) override {
        // Like find(1), do not remove the start ".".
        if (path_ == ".") return true;
        const int flags = found.type == 'd' ? AT_REMOVEDIR : 0;
        search_.limit_.take();
        if (::unlinkat(directory_, name_, flags) == 0) return true;
        const bool vanished = search_.may_be_gone(errno);
        if (!vanished) search_.failures_.add({path_, "delete", errno});
        return vanished;
    }
    bool run(const Found& /*found*/, size_t number, Verdict& verdict) override {
        if (!search_.expression_.commands()[number].gathers) {
            if (worker) search_.lines_.send_own(*worker);
            print_bytes(verdict.output);
            verdict.output.clear();
        }
        return search_.commands_.run(number, path_);
    }
    bool read_link(const Found& /*found*/, std::string& target) override {
        target.resize(4096);
        const ssize_t size = ::readlinkat(directory_, name_, target.data(), target.size());
        target.resize(size < 0 ? 0 : static_cast<size_t>(size));
        return size >= 0;
    }
    bool may(const Found& /*found*/, int access) override {
        return ::faccessat(directory_, name_, access, 0) == 0;
    }
    bool is_file(const Found& /*found*/, u64 device, u64 inode) override {
        struct statx status {};
        const int flags =
            AT_NO_AUTOMOUNT |
            (search_.setup_.options.follow == walk::Follow::all ? 0 : AT_SYMLINK_NOFOLLOW);
        return ::statx(directory_, name_, flags, STATX_INO, &status) == 0 &&
               walk::device_of(status) == device && status.stx_ino == inode;
    }

 private:
    HostSearch& search_;
    int directory_;
    const char* name_;
    std::string& path_;
};

HostSearch::HostSearch(const Expression& expression, const WalkSetup& setup, FoundList& list)
    : expression_(expression),
      setup_(setup),
      list_(list),
      limit_(setup.options),
      commands_(expression.commands()),
      lines_(setup.options),
      workers_(walk_threads(setup.options) + 1) {
    setup_.options.max_depth = expression.max_depth();
    setup_.options.one_file_system = expression.one_file_system();
    // Entries can be removed from a directory only one at a time, so sharing it between threads is
    // useless.
    setup_.options.share_directories = !expression.depth_first();
    // After one name of a file is removed its link count is lower, so attributes must not be read
    // ahead.
    if (expression.changes_files() && setup_.options.ahead == walk::Ahead::measured) {
        setup_.options.ahead = walk::Ahead::never;
    }
}

/// Whether a missing name is expected: -ignore_readdir_race was given, or the run that is being
/// resumed may have removed it after its last checkpoint.
bool HostSearch::may_be_gone(i32 error) const {
    const bool is_gone = error == ENOENT || (error == EBADF && setup_.options.resume);
    return is_gone && (expression_.ignores_vanished() || setup_.options.resume);
}

/// Acts on the verdict; false if the list of matches cannot be kept.
bool HostSearch::take(Worker& worker, const Found& found, Place& place, Verdict& verdict) {
    if (list_.is_json()) {
        if (!verdict.selected) return true;
        Json json;
        json.open_object().member("path", std::string_view(place.path(found)));
        json.member("depth", u64{found.depth});
        const Attributes& attributes = found.attributes();
        if (found.failed) return true;
        add_attributes(json, attributes);
        return list_.add(place.path(found), json.close_object().result(), worker.unsent);
    }
    if (verdict.selected && !expression_.has_action() && !verdict.quit) {
        append_masked_name(verdict.output, place.path(found));
        verdict.output += '\n';
    }
    if (verdict.output.empty() || !list_.is_sorted()) return true;
    return list_.add(place.path(found), verdict.output, worker.unsent);
}

walk::Next HostSearch::visit(Worker& worker, const walk::Entry& entry, const std::string& start) {
    const bool descends =
        entry.type() == walk::Type::directory && entry.depth() < expression_.max_depth();
    if (expression_.depth_first() && descends) return walk::Next::go_on;
    EntryAttributes attributes(entry);
    Found found;
    found.name = entry.name_view();
    found.start = start;
    found.depth = entry.depth();
    found.type = type_letter(entry.type());
    found.source = &attributes;
    worker.path.assign(entry.path());
    Place place(*this, entry.directory(), entry.name(), worker.path);
    place.worker = entry.worker();
    Verdict& verdict = worker.verdict;
    verdict.output.clear();
    verdict.selected = verdict.prune = verdict.quit = false;
    expression_.evaluate(found, place, verdict);
    if (!take(worker, found, place, verdict)) return walk::Next::stop;
    if (prints_at_once()) {
        lines_.of(entry.worker()) += verdict.output;
        lines_.wrote(entry.worker());
    }
    if (verdict.quit) return walk::Next::stop;
    return verdict.prune ? walk::Next::prune : walk::Next::go_on;
}

/// With -depth, for a directory whose contents were visited.
void HostSearch::finish_directory(const walk::Finished& directory, const std::string& start) {
    const bool follows = setup_.options.follow == walk::Follow::all ||
                         (directory.depth() == 0 && setup_.options.follow != walk::Follow::none);
    FinishedAttributes attributes(directory, AT_NO_AUTOMOUNT | (follows ? 0 : AT_SYMLINK_NOFOLLOW));
    Found found;
    found.name = directory.name();
    found.start = start;
    found.depth = directory.depth();
    found.type = 'd';
    found.source = &attributes;
    std::string path = directory.path();
    Place place(*this, directory.directory(), directory.name(), path);
    Verdict verdict;
    expression_.evaluate(found, place, verdict);
    if (attributes.error != 0 && !may_be_gone(attributes.error)) {
        failures_.add({path, "stat", attributes.error});
    }
    std::lock_guard lock(finished_mutex_);
    // If the list cannot be kept, end_of_tree() reports it.
    static_cast<void>(take(workers_.back(), found, place, verdict));
    if (prints_at_once()) print_bytes(verdict.output);
}

bool HostSearch::run(const std::string& start) {
    walk::Meter meter;
    setup_.options.meter = &meter;
    walk::Callbacks callbacks;
    callbacks.visit = [&](const walk::Entry& entry) {
        return visit(workers_[entry.worker()], entry, start);
    };
    if (expression_.depth_first()) {
        callbacks.finish = [&](const walk::Finished& directory) {
            finish_directory(directory, start);
        };
    }
    callbacks.fail = [&](const walk::Failure& failure) {
        if (walk::is_of_walk(failure) || !may_be_gone(failure.error)) failures_.add(failure);
    };
    callbacks.save = [&] { return save(); };
    callbacks.load = [&](std::string_view saved) { return load(saved); };
    walk::Totals totals;
    {
        const Progress progress("searching " + quote(start), meter);
        totals = walk::walk(std::span(&start, 1), setup_.options, callbacks);
    }
    lines_.flush();
    for (Worker& worker : workers_)
        list_.send(worker.unsent);
    is_listed_ = list_.end_of_tree() && is_listed_;
    was_interrupted_ = was_interrupted_ || totals.interrupted;
    has_quit_ = totals.stopped && !totals.interrupted && totals.entries > 0;
    return !totals.stopped;
}

/// For a checkpoint: all lines about the work that it covers have been printed.
std::string HostSearch::save() {
    lines_.flush();
    if (rank_number() == 0) finish_output();
    walk::ByteWriter writer;
    writer.put_bytes(commands_.save());
    return writer.take() + failures_.save();
}

bool HostSearch::load(std::string_view saved) {
    walk::ByteReader reader(saved, walk::Origin::file);
    const std::string_view commands = reader.get_bytes();
    return reader.good() && failures_.load(reader) && commands_.load(commands);
}

bool HostSearch::finish() {
    bool is_good = true;
    // A command that fails on one rank makes the search fail on all.
    for (const std::string& of_rank : gather_over_ranks(commands_.finish() ? "good" : ""))
        is_good = is_good && !of_rank.empty();
    end_checkpoints(setup_, has_quit_);
    return failures_.finish() && is_listed_ && (is_good || rank_number() != 0);
}

}  // namespace warren::cli
