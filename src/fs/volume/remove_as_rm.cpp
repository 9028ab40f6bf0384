// SPDX-License-Identifier: Apache-2.0
// Depth first, with an explicit stack, because a tree may be deeper than a thread's stack. Each
// call checks permission itself, so concurrent changes are respected.
#include "fs/volume/remove_as_rm.hpp"

#include <string>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/core/permission.hpp"
#include "fs/format/inode.hpp"
#include "fs/volume/progress_teller.hpp"

namespace warren {

using ops::Verb;

namespace {

constexpr std::size_t names_at_once = 1024;

class NameRemover {
 public:
    NameRemover(VolumeImplementation& volume, const Caller& caller, Removal& removal,
                const ProgressCallback& progress)
        : volume_(volume), caller_(caller), removal_(removal), progress_(progress) {}

    Errc remove(Handle directory, std::string_view name) {
        WARREN_TRY(enter(directory, name));
        while (!path_.empty()) {
            if (volume_.must_stop_reclaiming()) return Errc::busy;
            static_cast<void>(
                progress_.goes_on([&] { return removal_.files + removal_.directories; }));
            Level& level = path_.back();
            if (level.names.empty() && !level.is_listed) WARREN_TRY(note(list(level)));
            if (level.names.empty()) {
                WARREN_TRY(leave());
                continue;
            }
            const Name next = std::move(level.names.back());
            level.names.pop_back();
            const Handle in = level.directory;
            WARREN_TRY(next.is_directory ? note(enter(in, next.text)) : unlink(in, next.text));
        }
        return refusal_;
    }

 private:
    struct Name {
        std::string text;
        bool is_directory = false;
    };
    /// A directory on the path to the current position.
    struct Level {
        Handle parent;
        std::string name;
        Handle directory;
        u64 cookie = 0;  // of the last name listed
        bool is_listed = false;
        std::vector<Name> names;  // to be removed
    };

    /// Records the first refusal and continues. Any other error ends the removal.
    Errc note(Errc code) {
        const bool is_refusal = code == Errc::access || code == Errc::not_permitted ||
                                code == Errc::not_empty || code == Errc::busy;
        if (is_refusal && refusal_ == Errc::ok) refusal_ = code;
        // Another process has removed the name first.
        const bool is_gone = code == Errc::no_entry || code == Errc::stale;
        return is_refusal || is_gone ? Errc::ok : code;
    }

    Errc enter(Handle directory, std::string_view name) {
        ops::Command look_up = command_on(directory, caller_);
        set_name(look_up, name);
        WARREN_LET(found, volume_.ask<Verb::lookup>(look_up));
        if (!format::is_directory(found->mode)) return unlink(directory, name);
        path_.push_back({directory, std::string(name), found->handle, 0, false, {}});
        return Errc::ok;
    }

    Errc list(Level& level) {
        const u64 begin = level.cookie;
        WARREN_TRY(volume_.read_directory(level.directory, begin, [&](const DirectoryEntry& entry) {
            level.names.push_back({std::string(entry.name), entry.type == format::directory_entry});
            level.cookie = entry.cookie;
            return level.names.size() < names_at_once;
        }));
        level.is_listed = level.names.size() < names_at_once;
        if (begin != 0 || level.names.empty()) return Errc::ok;
        ops::Command access = command_on(level.directory, caller_);
        access.mode = core::may_read | core::may_execute;
        const Errc may_list = volume_.ask<Verb::check_access>(access);
        if (may_list == Errc::ok) return Errc::ok;
        level.names.clear();
        level.is_listed = true;
        return may_list;
    }

    Errc unlink(Handle directory, std::string_view name) {
        const Errc removed = volume_.remove_name<Verb::unlink>(caller_, directory, name);
        if (removed == Errc::ok) ++removal_.files;
        return note(removed);
    }

    /// Removes the last directory of the path, all names of which have been tried.
    Errc leave() {
        const Level& level = path_.back();
        const Errc removed =
            volume_.remove_name<Verb::remove_directory>(caller_, level.parent, level.name);
        if (removed == Errc::ok) ++removal_.directories;
        path_.pop_back();
        return note(removed);
    }

    VolumeImplementation& volume_;
    const Caller& caller_;
    Removal& removal_;
    ProgressTeller progress_;
    std::vector<Level> path_;
    Errc refusal_ = Errc::ok;
};

}  // namespace

Errc remove_as_rm(VolumeImplementation& volume, const Caller& caller, Handle directory,
                  std::string_view name, Removal& removal, const ProgressCallback& progress) {
    return or_no_memory(
        [&] { return NameRemover(volume, caller, removal, progress).remove(directory, name); });
}

}  // namespace warren
