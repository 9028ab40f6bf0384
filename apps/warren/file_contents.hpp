// SPDX-License-Identifier: Apache-2.0
// Copies and compares what is in two open files, or in parts of them.
//
// Invariant: holes stay holes. What fails is told with the side it failed on. Parts of one file may
// be copied and compared by several threads that have descriptors of their own.
#pragma once

#include <optional>

#include "warren/types.hpp"

namespace warren::cli {

/// Up to the end of the file, wherever that is.
inline constexpr u64 to_the_end = ~u64{0};

/// What failed: an errno, what was tried, and on which side. An error of 0: nothing did.
struct Fault {
    i32 error = 0;
    const char* action = "";
    bool at_target = false;
    explicit operator bool() const { return error != 0; }
};

/// Makes `to` share the blocks of `from`, where the file system can; 0 or errno.
int clone_file(int from, int to);

/// Which bytes of a file are written: all, those that are no hole, those that are not zero.
enum class Written : u8 { all, data, nonzero };

/// Whether the kernel may copy by itself. It shares blocks then where the file system can, and some
/// file systems keep holes.
enum class InKernel : u8 { no, yes };

/// Lets the kernel copy [offset, end) as far as it will; `offset` becomes where it stopped.
Fault copy_in_kernel(int from, int to, u64& offset, u64 end);

/// Copies of the bytes [begin, end) those that are to be written; offsets are the same on both
/// sides.
Fault copy_part(int from, int to, u64 begin, u64 end, Written written, InKernel in_kernel);

/// Copies what comes out of `from` to `to` until nothing comes, from where both are.
Fault copy_stream(int from, int to);

/// How two files differ first.
struct Difference {
    u64 offset = 0;           // of the first byte that differs
    bool is_end = false;      // one of them ends there
    bool ends_first = false;  // the first one
};

/// The first difference in [begin, end), if there is one.
Fault compare_part(int first, int second, u64 begin, u64 end,
                   std::optional<Difference>& difference);

}  // namespace warren::cli
