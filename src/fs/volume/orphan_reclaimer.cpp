// SPDX-License-Identifier: Apache-2.0
// A damaged orphan is reported and skipped. Any other error ends the thread, because it would
// affect the next orphan too.
#include "fs/volume/orphan_reclaimer.hpp"

#include <chrono>
#include <cstring>
#include <utility>

#include "base/notice.hpp"
#include "base/out_of_memory.hpp"
#include "base/wait_for_stop.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {
namespace {

using ops::Verb;
using std::chrono::milliseconds;

constexpr u64 lines_max = 20;
// The minimum time between two searches for space by a thread, each of which costs a commit.
constexpr milliseconds gathering{100};
constexpr milliseconds patience{1000};
constexpr milliseconds before_next_try{10};

}  // namespace

void OrphanReclaimer::start() {
    const Errc listed = or_no_memory([this] { return list(); });
    if (listed != Errc::ok) {
        tell(std::string("not all of what was removed before is known, and some of it may keep "
                         "its space: ") +
             (listed == Errc::corrupt ? "the orphan directory is damaged; run warren fsck --repair"
                                      : std::strerror(static_cast<int>(listed))));
    }
    if (orphans_.empty()) return;
    is_over_ = false;
    const Errc started = or_no_memory([this] {
        const std::lock_guard lock(mutex_);  // the thread reads thread_
        thread_ = std::jthread([this] { run(); });
    });
    if (started == Errc::ok) return;
    is_over_ = true;
    tell("what was removed before keeps its space: there is no memory for a thread");
}

/// Lists the entries of the orphan directory.
Errc OrphanReclaimer::list() {
    const Result<Handle> directory = volume_.handle_of(volume_.store().orphan_directory);
    if (!directory) return directory.code() == Errc::stale ? Errc::corrupt : directory.code();
    directory_ = *directory;
    return volume_.read_directory(directory_, 0, [this](const DirectoryEntry& entry) {
        if (orphans_.size() == orphans_max) return false;
        orphans_.push_back({entry.inode, entry.type == format::directory_entry});
        return true;
    });
}

void OrphanReclaimer::stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
}

void OrphanReclaimer::finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_over_; });
}

u64 OrphanReclaimer::freed() {
    const std::lock_guard lock(mutex_);
    return freed_;
}

bool OrphanReclaimer::is_running() {
    const std::lock_guard lock(mutex_);
    return !is_over_ && !is_own_thread();
}

bool OrphanReclaimer::wait_for_space(u64& freed) {
    std::unique_lock lock(mutex_);
    if (!is_over_ && !is_own_thread()) {
        changed_.wait_for(lock, gathering, [this] { return is_over_; });
        changed_.wait_for(lock, patience, [&] { return is_over_ || freed_ != freed; });
    }
    return std::exchange(freed, freed_) != freed_;
}

void OrphanReclaimer::run() {
    { const std::lock_guard started(mutex_); }
    const Errc code = or_no_memory([this] { return free_all(); });
    if (code != Errc::ok) {
        tell(std::string("what was removed before keeps its space until the next opening: ") +
             std::strerror(static_cast<int>(code)));
    }
    if (damaged_ > lines_max) {
        tell(std::to_string(damaged_) + " removed inodes are damaged; warren fsck names all");
    }
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
}

Errc OrphanReclaimer::free_all() {
    begin_dying();
    while (!orphans_.empty()) {
        std::vector<Orphan> busy;
        for (const Orphan& orphan : orphans_) {
            if (is_stopping()) return Errc::ok;
            const Errc code = reclaim(orphan);
            if (code == Errc::busy) busy.push_back(orphan);
            WARREN_TRY(note(orphan, code));
        }
        orphans_ = std::move(busy);
        if (orphans_.empty()) break;
        if (wait_for_stop(thread_.get_stop_token(), before_next_try)) return Errc::ok;
    }
    return Errc::ok;
}

/// Sets the mark entries_dying of directories, which an interrupted removal may not have set.
void OrphanReclaimer::begin_dying() {
    for (const Orphan& orphan : orphans_) {
        if (is_stopping()) return;
        if (!orphan.is_directory) continue;
        // An error is reported when the directory is freed.
        const Result<Handle> handle = find(orphan);
        if (handle) static_cast<void>(volume_.ask<Verb::start_dying>(command_on(*handle)));
    }
}

/// The handle of an orphan. Errc::stale if its number belongs to no inode, or to one of another
/// type.
///
/// A file that was created without a name can get one and be removed again before its turn comes;
/// then its number may belong to a directory that is in use. A directory is freed by this thread
/// alone: a close frees none that was removed before the volume was opened.
Result<Handle> OrphanReclaimer::find(const Orphan& orphan) {
    WARREN_LET(found, volume_.attributes_of(orphan.inode));
    const bool is_directory = format::is_directory(found->mode);
    return is_directory == orphan.is_directory ? Result<Handle>(found->handle) : Errc::stale;
}

Errc OrphanReclaimer::reclaim(const Orphan& orphan) {
    const Result<Handle> handle = find(orphan);
    if (handle) return volume_.reclaim(*handle);
    if (handle.code() != Errc::stale) return handle.code();
    // Invalid numbers are skipped. An orphan that another thread has freed no longer has a name.
    const format::OrphanName name(orphan.inode);
    ops::Command look = command_on(directory_);
    set_name(look, name.view());
    const Errc named = volume_.ask<Verb::lookup>(look).code();
    if (named == Errc::ok || named == Errc::stale) return Errc::corrupt;
    return named == Errc::no_entry ? Errc::ok : named;
}

/// Counts freed orphans and reports damaged ones. Returns an error that ends the thread.
Errc OrphanReclaimer::note(const Orphan& orphan, Errc code) {
    if (code == Errc::busy || (code != Errc::ok && is_stopping())) return Errc::ok;
    if (code == Errc::corrupt || code == Errc::io) {
        if (++damaged_ <= lines_max) {
            tell("inode " + std::to_string(orphan.inode) +
                 ", which was removed, is damaged or unreadable and keeps its space; unmount the "
                 "volume and run warren fsck --repair");
        }
        return Errc::ok;
    }
    if (code != Errc::ok) return code;
    const std::lock_guard lock(mutex_);
    ++freed_;
    changed_.notify_all();
    return Errc::ok;
}

void OrphanReclaimer::tell(const std::string& what) {
    static_cast<void>(or_no_memory([&] { notice(name_ + ": " + what); }));
}

}  // namespace warren
