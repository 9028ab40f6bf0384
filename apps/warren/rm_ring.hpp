// SPDX-License-Identifier: Apache-2.0
// Many names on a mounted volume, removed through a ring of the mount (warren/mount_ring.hpp): a
// system call for each would be a trip to the daemon for each.
//
// Invariant: only names of files go that the kernel would let us unlink; whatever else becomes of a
// name is told, with the name still there.
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
    static constexpr std::size_t names_min = 32;  // for fewer a ring is not worth its making

    /// Whether `text` is a path on a mount whose ring can be had; then it is removed by remove().
    bool take(const std::string& text);
    bool is_full() const { return texts_.size() >= names_max; }
    /// Removes what was taken, in order; `tell(text, code)` gets what became of each.
    void remove(const std::function<void(const std::string&, Errc)>& tell);

 private:
    static constexpr std::size_t names_max = 16384;

    std::optional<Handle> directory(const std::string& path);
    std::optional<Handle> attach(const std::string& path);

    std::unique_ptr<MountRing> ring_;
    bool has_failed_ = false;  // no ring can be had
    u64 device_ = 0;           // of the ring's mount
    std::map<std::string, std::optional<Handle>, std::less<>> directories_;
    std::vector<std::string> texts_;
    std::vector<Handle> in_;
};

}  // namespace warren::cli
