// SPDX-License-Identifier: Apache-2.0
// The kernel may transfer fewer bytes than requested, and a signal may interrupt a call: these
// functions repeat the call until everything is transferred.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/last_error.hpp"
#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

/// Repeats `call(done)`, which returns what read(2) returns, until `size` bytes are done or it
/// returns 0. Returns the number of bytes done.
template <class Call>
Result<u64> do_whole(u64 size, const Call& call) {
    u64 done = 0;
    while (done < size) {
        const ssize_t now = call(done);
        if (now < 0 && errno == EINTR) continue;
        if (now < 0) return last_error();
        if (now == 0) break;
        done += static_cast<u64>(now);
    }
    return done;
}

/// Reads from `offset` until `target` is full or the file ends. Returns the number of bytes.
inline Result<u64> read_fully(int file, u64 offset, std::span<std::byte> target) {
    return do_whole(target.size(), [&](u64 done) {
        return ::pread(file, target.data() + done, target.size() - done,
                       static_cast<off_t>(offset + done));
    });
}

/// Fills `targets` in order from `offset` until they are full or the file ends, and modifies them.
/// Returns the number of bytes. Requires: at most IOV_MAX targets.
inline Result<u64> read_fully(int file, u64 offset, std::span<iovec> targets) {
    u64 size = 0;
    for (const iovec& target : targets)
        size += target.iov_len;
    return do_whole(size, [&](u64 done) {
        const ssize_t now = ::preadv(file, targets.data(), static_cast<int>(targets.size()),
                                     static_cast<off_t>(offset + done));
        std::size_t left = now > 0 ? static_cast<std::size_t>(now) : 0;
        while (left > 0 && left >= targets.front().iov_len) {
            left -= targets.front().iov_len;
            targets = targets.subspan(1);
        }
        if (left > 0) {
            targets.front().iov_base = static_cast<std::byte*>(targets.front().iov_base) + left;
            targets.front().iov_len -= left;
        }
        return now;
    });
}

inline Errc write_fully(int file, u64 offset, std::span<const std::byte> source) {
    const Result<u64> written = do_whole(source.size(), [&](u64 done) {
        return ::pwrite(file, source.data() + done, source.size() - done,
                        static_cast<off_t>(offset + done));
    });
    return written && *written != source.size() ? Errc::io : written.code();
}

/// Writes at the descriptor's file position, or to a file without offsets.
inline Errc write_fully(int file, std::span<const std::byte> source) {
    const Result<u64> written = do_whole(source.size(), [&](u64 done) {
        return ::write(file, source.data() + done, source.size() - done);
    });
    return written && *written != source.size() ? Errc::io : written.code();
}

}  // namespace warren
