// SPDX-License-Identifier: Apache-2.0
// What one worker has at hand while it goes through a part of a directory: the entry, its status,
// the path so far, and a result of its own that joins the directory's when the part is done.
//
// Invariant: everything an Entry refers to lives here and is used by one thread.
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
    std::string path;         // begins with the directory's once it was asked for
    size_t prefix_bytes = 0;  // 0: not made yet
    bool has_path = false;    // `path` ends with the entry's name
    struct statx status {};
    u32 status_mask = 0;     // what of `status` is the entry's
    i32 status_error = 0;    // not 0: there is none
    int status_flags = 0;    // for statx(2)
    bool was_asked = false;  // for the entry's status
    StatusPace pace;
    StatusAhead ahead;
    std::vector<u64> result;  // words, so that it is aligned
    bool has_result = false;  // the callback has asked for it
    std::vector<u64> own_result;
    bool has_own_result = false;

    /// Begins with a directory (null: roots) whose descriptor is `directory`.
    void enter(Node* parent, int directory, u32 depth);
    /// Makes `entry` the entry of this name.
    void show(const char* name, u32 size, Type type, u64 inode);
    /// Asks for at least the fields of `mask`; 0 or errno.
    i32 load_status(u32 mask);
    void set_type(Type type) { entry.type_ = type; }
    std::string_view entry_path();
};

Type type_of_mode(u32 mode);

}  // namespace warren::walk
