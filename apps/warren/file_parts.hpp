// SPDX-License-Identifier: Apache-2.0
// A large file of a tree that is walked, cut into parts: tasks that any thread and any rank takes.
#pragma once

#include <optional>

#include "warren/walk.hpp"

namespace warren::cli {

inline constexpr u64 large_bytes = 64 * mib;
inline constexpr u64 part_bytes = 16 * mib;

struct FilePart {
    u64 begin;
    u64 end;
    const char* name;  // of the file in the task's directory
};

/// Queues the parts of the entry, a file of `size` bytes.
void add_file_parts(const walk::Entry& entry, u64 size);
/// The task as add_file_parts() made it; nothing if that did not, but a checkpoint says so.
std::optional<FilePart> file_part_of(const walk::Task& task);

}  // namespace warren::cli
