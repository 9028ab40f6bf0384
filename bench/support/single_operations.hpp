// SPDX-License-Identifier: Apache-2.0
// System calls one at a time on a mounted file system, as a program makes them: each function is
// one measurement over `count` files and answers its seconds.
//
// Invariant: run in the order of single_operations() each finds what it needs, and the directory is
// empty at the end.
#pragma once

#include <string>
#include <vector>

#include "warren/types.hpp"

namespace warren::bench {

struct SingleOperation {
    const char* name;
    double (*run)(const std::string& folder, u64 count);
    bool drops_caches = false;  // the kernel's names and inodes are thrown away before
};

const std::vector<SingleOperation>& single_operations();

/// Writes a file of `size_bytes` in blocks of 1 MiB and closes it; its seconds.
double write_stream(const std::string& path, u64 size_bytes);
/// Reads it in blocks of 1 MiB; its seconds.
double read_stream(const std::string& path);

/// Makes `count` files of 4 KiB, each written, fsynced and closed; its seconds.
double make_synced_files(const std::string& folder, u64 count);

}  // namespace warren::bench
