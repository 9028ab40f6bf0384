// SPDX-License-Identifier: Apache-2.0
// Programs that may take so much memory and no more, with what the kernel caches for them: a group
// of the system's memory controller (cgroups of version 1 or 2). Needs root.
//
// Invariant: the group is gone with its object; its processes must have ended before.
#pragma once

#include <string>
#include <vector>

#include "warren/types.hpp"

namespace warren::bench {

class MemoryLimit {
 public:
    /// `name` distinguishes groups of one program.
    MemoryLimit(const std::string& name, u64 bytes);
    ~MemoryLimit();
    MemoryLimit(const MemoryLimit&) = delete;
    MemoryLimit& operator=(const MemoryLimit&) = delete;

    /// Empty if groups can be created here; otherwise what is missing.
    static std::string why_not();

    /// The words to put before a program's, so that it runs within the limit.
    std::vector<std::string> words() const;
    std::vector<std::string> with(const std::vector<std::string>& program) const;

 private:
    std::string path_;
};

}  // namespace warren::bench
