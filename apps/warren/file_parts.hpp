// SPDX-License-Identifier: Apache-2.0
// Splits a large file of a tree that is being walked into parts: tasks that any thread of any rank
// can take.
#pragma once

#include <optional>

#include "warren/walk.hpp"

namespace warren::cli {

inline constexpr u64 large_bytes = 64 * mib;
inline constexpr u64 part_bytes = 16 * mib;

struct FilePart {
    u64 begin;
    u64 end;
    const char* name;  // of the file, in the task's directory
};

/// Queues tasks for the parts of the entry, a file of `size` bytes.
void add_file_parts(const walk::Entry& entry, u64 size);
/// Decodes a task of add_file_parts(); nullopt if it is not one, as in a damaged checkpoint.
std::optional<FilePart> file_part_of(const walk::Task& task);

}  // namespace warren::cli
