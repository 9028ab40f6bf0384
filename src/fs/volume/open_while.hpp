// SPDX-License-Identifier: Apache-2.0
// Keeps a file open for a scope, so that it is not freed.
#pragma once

#include "warren/volume.hpp"

namespace warren {

class OpenWhile {
 public:
    OpenWhile(Volume& volume, Handle file)
        : volume_(volume), file_(file), code_(volume.open_file(file)) {}
    ~OpenWhile() {
        if (code_ == Errc::ok) static_cast<void>(volume_.release(file_));
    }
    OpenWhile(const OpenWhile&) = delete;
    OpenWhile& operator=(const OpenWhile&) = delete;
    /// Whether the file was opened.
    Errc code() const { return code_; }

 private:
    Volume& volume_;
    Handle file_;
    Errc code_;
};

}  // namespace warren
