// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share: how an input is taken apart, and how a target names its seeds.
//
// Invariant: every input is a valid one; where it ends, zeros follow.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "warren/types.hpp"

namespace warren::fuzz {

/// The inputs that a target's corpus begins with, made by the writers of the format. A target that
/// is called with `--seeds FOLDER` writes them there.
std::vector<std::string> seeds();

/// An input, read from its begin.
class Input {
 public:
    Input(const u8* bytes, size_t size_bytes)
        : left_(reinterpret_cast<const char*>(bytes), size_bytes) {}

    template <class T>
    T get() {
        T value{};
        const std::string_view bytes = take(sizeof value);
        std::memcpy(&value, bytes.data(), bytes.size());
        return value;
    }
    /// The next bytes, or all that are left.
    std::string_view take(size_t size_bytes) {
        const std::string_view bytes = left_.substr(0, std::min(size_bytes, left_.size()));
        left_.remove_prefix(bytes.size());
        return bytes;
    }
    std::string_view rest() { return take(left_.size()); }
    bool at_end() const { return left_.empty(); }

 private:
    std::string_view left_;
};

/// Makes a seed.
class Output {
 public:
    template <class T>
    Output& put(const T& value) {
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    Output& bytes(std::string_view bytes) {
        bytes_ += bytes;
        return *this;
    }
    std::string take() { return std::move(bytes_); }

 private:
    std::string bytes_;
};

/// A folder in memory for the files of this process; gone when it ends.
const std::string& scratch_folder();
void write_file(const std::string& path, std::string_view bytes);
std::string read_file(const std::string& path);

}  // namespace warren::fuzz
