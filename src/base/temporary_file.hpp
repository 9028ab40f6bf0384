// SPDX-License-Identifier: Apache-2.0
// Files that have no lasting name: data that do not fit in memory, and files made for a
// measurement.
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
    /// Removes the name; the file lives on until its last descriptor is closed.
    void forget_name();

    int descriptor() const { return descriptor_; }
    /// Empty when the name is forgotten.
    const std::string& path() const { return path_; }

 private:
    int descriptor_ = -1;
    std::string path_;
};

}  // namespace warren
