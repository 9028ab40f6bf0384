// SPDX-License-Identifier: Apache-2.0
// The state of one worker while it processes a part of a directory: the entry, its status, the path
// so far, and a partial result that is merged into the directory's when the part is done.
//
// Invariant: everything that an Entry refers to is stored here and used by one thread.
#pragma once

#include <fcntl.h>

#include <string>
#include <vector>

#include "walk/status_ahead.hpp"
#include "warren/walk.hpp"

namespace warren::walk {

class Engine;

struct Visit {
    Engine* engine = nullptr;
    u32 worker = 0;
    Node* node = nullptr;  // the directory; null for a root
    Entry entry;
    std::string path;         // begins with the directory's path once that was needed
    size_t prefix_bytes = 0;  // length of the directory's path; 0: not built yet
    bool has_path = false;    // `path` ends with the entry's name
    struct statx status {};
    u32 status_mask = 0;     // fields of `status` that are valid for the entry
    i32 status_error = 0;    // if not 0, reading the status failed
    int status_flags = 0;    // for statx(2)
    bool was_asked = false;  // whether the entry's status was needed
    StatusPace pace;
    StatusAhead ahead;
    std::vector<u64> result;  // in words, so that it is aligned
    bool has_result = false;  // a callback has asked for it
    std::vector<u64> own_result;
    bool has_own_result = false;

    /// Begins with a directory (null: roots) whose descriptor is `directory`.
    void enter(Node* parent, int directory, u32 depth);
    /// Makes the entry with this name the current one.
    void show(const char* name, u32 size, Type type, u64 inode);
    /// Reads at least the fields of `mask`. Returns 0 or an errno value.
    i32 load_status(u32 mask);
    void set_type(Type type) { entry.type_ = type; }
    std::string_view entry_path();
};

Type type_of_mode(u32 mode);

}  // namespace warren::walk
