// SPDX-License-Identifier: Apache-2.0
// One JSON array on standard output, printed as its objects arrive, so it may have any length.
//
// Invariant: after close() the output is a complete array, even if it is empty.
#pragma once

#include <mutex>
#include <string_view>

namespace warren::cli {

class JsonArray {
 public:
    /// Between two objects.
    static constexpr std::string_view separator = ",\n ";

    /// Prints an object, or several with separators between them; from any thread.
    void add(std::string_view objects);
    void close();

 private:
    std::mutex mutex_;
    bool has_begun_ = false;
};

}  // namespace warren::cli
