// SPDX-License-Identifier: Apache-2.0
// Files that nobody is to find later: what does not fit in memory, and what is made to be measured.
//
// Invariant: no name stays behind, unless the process is killed between make() and forget_name().
#pragma once

#include <string>

#include "warren/result.hpp"

namespace warren {

/// Where they are made: $TMPDIR, or /tmp where it is not set or empty.
std::string temporary_folder();

class TemporaryFile {
 public:
    TemporaryFile() = default;
    ~TemporaryFile();
    TemporaryFile(TemporaryFile&& other) noexcept;
    TemporaryFile& operator=(TemporaryFile&& other) noexcept;

    /// Makes an empty file in `folder`, for this user only, open for reading and writing.
    Errc make(const std::string& folder);
    /// From here on it lives as long as somebody has it open.
    void forget_name();

    int descriptor() const { return descriptor_; }
    /// Empty when the name is forgotten.
    const std::string& path() const { return path_; }

 private:
    int descriptor_ = -1;
    std::string path_;
};

}  // namespace warren
