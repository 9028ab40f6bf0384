// SPDX-License-Identifier: Apache-2.0
// What `find` has found where it is not simply printed: lines in the order of their paths (-s), the
// objects of an array (--json), or both.
//
// Invariant: what is sorted takes bounded memory, the rest of it lies in a temporary file; what is
// not sorted is printed as it comes.
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
    /// Adds lines or an object; from any thread, each with an `unsent` of its own. False if the
    /// list cannot be kept, which end_of_tree() tells.
    bool add(std::string_view path, std::string_view text, std::string& unsent);
    /// Prints what a thread has not sent.
    void send(std::string& unsent);
    /// Prints what is sorted. False, with a complaint, if it could not be kept.
    bool end_of_tree();
    /// Ends the array, unless a part of it is missing: then nobody is to take it for whole.
    void close();

 private:
    void append(std::string_view text, std::string& unsent);

    const bool is_sorted_;
    const bool is_json_;
    const u64 memory_bytes_;
    std::optional<walk::SpillSort> sorted_;  // of one tree
    bool is_broken_ = false;
    JsonArray objects_;
};

}  // namespace warren::cli
