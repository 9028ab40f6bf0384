// SPDX-License-Identifier: Apache-2.0
// Logs for the administrator which objects of a volume are damaged, and when the disk refuses
// writes. Programs only get EIO, which says neither what is wrong nor what to do.
//
// Invariant: one line for each object, however often it is accessed, and at most lines_max in all,
// so that damage of half a volume does not fill the system's log. Commits that fail in succession
// for the same reason are logged once.
#pragma once

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "warren/volume.hpp"

namespace warren::fuse {

class DamageLog {
 public:
    static constexpr std::size_t lines_max = 100;

    /// Each line begins with `image`.
    explicit DamageLog(std::string image) : image_(std::move(image)) {}

    /// Records that a request about `inode`, or about `name` in this directory, met damaged
    /// metadata. An empty name: the request was about the inode itself.
    void note(u64 inode, std::string_view name);
    /// Records the result of a commit. `is_final`: if it failed, the volume accepts no more
    /// changes.
    void note_commit(Errc code, bool is_final);
    /// Records the refused write after which the volume accepts no more changes. Failed commits
    /// after it are not logged.
    void note_refusal(const DiskRefusal& refusal);

 private:
    void tell_the_end(Errc code, const std::string& why, const std::string& remedy);

    std::string image_;
    std::atomic<Errc> last_commit_{Errc::ok};
    std::atomic<bool> has_ended_{false};
    std::mutex mutex_;  // guards the members below
    std::set<std::pair<u64, std::string>> told_;
};

}  // namespace warren::fuse
