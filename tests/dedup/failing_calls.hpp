// SPDX-License-Identifier: Apache-2.0
// Lets one call to the system fail that makes, reads, writes, flushes or renames a file, wherever
// in this program it comes from: the functions of the C library are replaced here and call those
// that they replace. For one source file of a program, one FailingCall at a time.
//
// Invariant: while none lives, every call goes through.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "warren/types.hpp"

namespace warren::failing_calls {

inline std::atomic<bool> is_armed{false};
inline std::atomic<u64> counted{0};
inline std::atomic<u64> failing{0};

inline bool fails_now() {
    if (!is_armed.load(std::memory_order_relaxed)) return false;
    return counted.fetch_add(1, std::memory_order_relaxed) + 1 ==
           failing.load(std::memory_order_relaxed);
}

/// Calls the C library's version of `function`, or returns -1 with EIO.
template <class Function, class... Arguments>
auto call_or_fail(Function* function, const char* name, Arguments... arguments) {
    using Answer = decltype(function(arguments...));
    if (!fails_now()) {
        return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name))(arguments...);
    }
    errno = EIO;
    return Answer{-1};
}

}  // namespace warren::failing_calls

extern "C" {

ssize_t pread(int file, void* into, size_t bytes, off_t place) {
    return warren::failing_calls::call_or_fail(pread, "pread", file, into, bytes, place);
}
ssize_t pwrite(int file, const void* from, size_t bytes, off_t place) {
    return warren::failing_calls::call_or_fail(pwrite, "pwrite", file, from, bytes, place);
}
int mkstemp(char* name) {
    return warren::failing_calls::call_or_fail(mkstemp, "mkstemp", name);
}
int mkostemp(char* name, int flags) {
    return warren::failing_calls::call_or_fail(mkostemp, "mkostemp", name, flags);
}
int posix_fallocate(int file, off_t place, off_t bytes) {
    const int answer =
        warren::failing_calls::call_or_fail(posix_fallocate, "posix_fallocate", file, place, bytes);
    return answer == -1 ? EIO : answer;
}
int fsync(int file) {
    return warren::failing_calls::call_or_fail(fsync, "fsync", file);
}
int rename(const char* from, const char* to) noexcept {
    return warren::failing_calls::call_or_fail(rename, "rename", from, to);
}

}  // extern "C"

namespace warren {

/// During its lifetime those calls are counted and the `nth` fails with EIO, from 1 on.
class FailingCall {
 public:
    explicit FailingCall(u64 nth) {
        failing_calls::counted = 0;
        failing_calls::failing = nth;
        failing_calls::is_armed = true;
    }
    ~FailingCall() { failing_calls::is_armed = false; }
    FailingCall(const FailingCall&) = delete;
    FailingCall& operator=(const FailingCall&) = delete;

    bool has_failed() const { return failing_calls::counted >= failing_calls::failing; }
};

}  // namespace warren
