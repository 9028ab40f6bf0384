// SPDX-License-Identifier: Apache-2.0
// The results of `find` where they are not simply printed: lines sorted by path (-s), the objects
// of a JSON array (--json), or both.
//
// Invariant: sorting takes bounded memory, and spills to a temporary file; unsorted results are
// printed as they come.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apps/warren/json_array.hpp"
#include "walk/spill_sort.hpp"

namespace warren::cli {

class FoundList {
 public:
    FoundList(bool is_sorted, bool is_json, u64 memory_bytes);

    bool is_sorted() const { return is_sorted_; }
    bool is_json() const { return is_json_; }
    /// Adds lines or an object; callable from any thread, each with its own `unsent`. Returns false
    /// if the list cannot be kept; end_of_tree() reports the error.
    bool add(std::string_view path, std::string_view text, std::string& unsent);
    /// Prints the remaining output of a thread.
    void send(std::string& unsent);
    /// Prints the sorted results. Returns false, after an error message, if they could not be kept.
    bool end_of_tree();
    /// Ends the array, unless a part of it is missing: an incomplete array is left open so that no
    /// reader accepts it.
    void close();

 private:
    void append(std::string_view text, std::string& unsent);

    const bool is_sorted_;
    const bool is_json_;
    const u64 memory_bytes_;
    std::optional<walk::SpillSort> sorted_;  // the results for one tree
    bool is_broken_ = false;
    JsonArray objects_;
};

}  // namespace warren::cli
