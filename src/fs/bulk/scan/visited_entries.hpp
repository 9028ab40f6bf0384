// SPDX-License-Identifier: Apache-2.0
// The entries that a scan has visited before its engine failed, so that the volume's own threads
// visit the others only.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "warren/volume.hpp"

namespace warren {

/// Filled by one thread, then read by many.
class VisitedEntries {
 public:
    /// Whether the engine has failed between two visits. Then all that it has visited is here.
    bool is_interrupted() const { return is_interrupted_; }
    /// Call when all has been added.
    void set_interrupted() { is_interrupted_ = true; }
    /// `answer`: what the visitor has returned. Throws std::bad_alloc.
    void add(Handle directory, std::string_view name, bool answer) {
        answers_.emplace(key_of(directory, name), answer);
    }
    /// Returns the visitor's answer for an entry, and calls it only if that was not visited before.
    /// Throws std::bad_alloc.
    bool visit(const Scanned& entry, const std::function<bool(const Scanned&)>& visitor) const {
        const auto before = answers_.find(key_of(entry.directory, entry.name));
        return before != answers_.end() ? before->second : visitor(entry);
    }

 private:
    static std::string key_of(Handle directory, std::string_view name) {
        const u64 parts[] = {directory.inode, directory.generation};
        std::string key(reinterpret_cast<const char*>(parts), sizeof parts);
        return key.append(name);
    }

    std::unordered_map<std::string, bool> answers_;
    bool is_interrupted_ = false;
};

}  // namespace warren
