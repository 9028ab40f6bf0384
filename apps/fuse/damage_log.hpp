// SPDX-License-Identifier: Apache-2.0
// Logs for the administrator which objects of a volume are damaged, and that its disk accepts no
// more writes. Programs get EIO, which says neither what is wrong nor what to do about it.
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

    /// `image` opens each line.
    explicit DamageLog(std::string image) : image_(std::move(image)) {}

    /// Notes that a request about `inode`, or about `name` in this directory, met metadata that
    /// cannot be right. An empty name: about the inode itself.
    void note(u64 inode, std::string_view name);
    /// Notes how a commit has ended. `is_final`: after one that fails the volume takes no more.
    void note_commit(Errc code, bool is_final);
    /// Notes the write after which the volume takes no more. Commits that fail after it are not
    /// told of any more.
    void note_refusal(const DiskRefusal& refusal);

 private:
    void tell_the_end(Errc code, const std::string& why, const std::string& remedy);

    std::string image_;
    std::atomic<Errc> last_commit_{Errc::ok};
    std::atomic<bool> has_ended_{false};
    std::mutex mutex_;  // guards what follows
    std::set<std::pair<u64, std::string>> told_;
};

}  // namespace warren::fuse
