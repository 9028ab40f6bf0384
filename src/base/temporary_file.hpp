// SPDX-License-Identifier: Apache-2.0
// Files without a lasting name: for data that do not fit in memory, and for measurements.
//
// Invariant: no name is left behind, unless the process is killed between make() and forget_name().
#pragma once

#include <string>

#include "warren/result.hpp"

namespace warren {

/// The folder for temporary files: $TMPDIR, or /tmp if it is unset or empty.
std::string temporary_folder();

class TemporaryFile {
 public:
    TemporaryFile() = default;
    ~TemporaryFile();
    TemporaryFile(TemporaryFile&& other) noexcept;
    TemporaryFile& operator=(TemporaryFile&& other) noexcept;

    /// Creates an empty file in `folder`, accessible only to this user, open for reading and
    /// writing.
    Errc make(const std::string& folder);
    /// Removes the name; the file exists until its last descriptor is closed.
    void forget_name();

    int descriptor() const { return descriptor_; }
    /// Empty after forget_name().
    const std::string& path() const { return path_; }

 private:
    int descriptor_ = -1;
    std::string path_;
};

}  // namespace warren
