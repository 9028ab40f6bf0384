// SPDX-License-Identifier: Apache-2.0
// A file that stays open, and so in existence, for a scope.
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
    /// Whether it is open.
    Errc code() const { return code_; }

 private:
    Volume& volume_;
    Handle file_;
    Errc code_;
};

}  // namespace warren
