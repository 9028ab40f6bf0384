// SPDX-License-Identifier: Apache-2.0
// Copies and compares the contents of two open files, or of parts of them.
//
// Invariant: holes stay holes. An error is returned with the side on which it occurred. Several
// threads may copy and compare parts of one file, each with its own descriptors.
#pragma once

#include <optional>

#include "warren/types.hpp"

namespace warren::cli {

/// Up to the end of the file, wherever it is then.
inline constexpr u64 to_the_end = ~u64{0};

/// An error: errno, the action that failed, and on which side. `error` is 0 if nothing failed.
struct Fault {
    i32 error = 0;
    const char* action = "";
    bool at_target = false;
    explicit operator bool() const { return error != 0; }
};

/// Makes `to` share the blocks of `from`, if the file system can; returns 0 or an errno.
int clone_file(int from, int to);

/// Which bytes of a file are written: all, those outside holes, those that are not zero.
enum class Written : u8 { all, data, nonzero };

/// Whether the kernel may copy (copy_file_range): it may then share blocks if the file system can,
/// and on some file systems keeps holes.
enum class InKernel : u8 { no, yes };

/// Lets the kernel copy as much of [offset, end) as it will; advances `offset` to where it stopped.
Fault copy_in_kernel(int from, int to, u64& offset, u64 end);

/// Copies those of the bytes [begin, end) that `written` selects, to the same offsets in `to`.
Fault copy_part(int from, int to, u64 begin, u64 end, Written written, InKernel in_kernel);

/// Copies from the current offset of `from` to that of `to`, until `from` is at its end.
Fault copy_stream(int from, int to);

/// The first difference between two files.
struct Difference {
    u64 offset = 0;           // of the first byte that differs
    bool is_end = false;      // one of them ends there
    bool ends_first = false;  // it is the first file that ends
};

/// The first difference in [begin, end), if there is one.
Fault compare_part(int first, int second, u64 begin, u64 end,
                   std::optional<Difference>& difference);

}  // namespace warren::cli
