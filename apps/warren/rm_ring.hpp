// SPDX-License-Identifier: Apache-2.0
// Removes many names on a mounted volume through a ring of the mount (warren/mount_ring.hpp), which
// saves a round trip to the daemon for each system call.
//
// Invariant: only names of files are removed that the kernel would let this user unlink; for any
// other name the error is returned and the name remains.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "warren/mount_ring.hpp"

namespace warren::cli {

class RingRemover {
 public:
    static constexpr std::size_t names_min = 32;  // for fewer, setting up a ring does not pay

    /// Whether `text` is a path on a mount with a usable ring; then remove() will remove it.
    bool take(const std::string& text);
    bool is_full() const { return texts_.size() >= names_max; }
    /// Removes the names that were taken, in order; calls `tell(text, code)` with the result of
    /// each.
    void remove(const std::function<void(const std::string&, Errc)>& tell);

 private:
    static constexpr std::size_t names_max = 16384;

    std::optional<Handle> directory(const std::string& path);
    std::optional<Handle> attach(const std::string& path);

    std::unique_ptr<MountRing> ring_;
    bool has_failed_ = false;  // a ring could not be set up
    u64 device_ = 0;           // of the ring's mount
    std::map<std::string, std::optional<Handle>, std::less<>> directories_;
    std::vector<std::string> texts_;
    std::vector<Handle> in_;
};

}  // namespace warren::cli
