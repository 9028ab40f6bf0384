// SPDX-License-Identifier: Apache-2.0
// The kernel may transfer less than it is asked to, and a signal may interrupt it: these functions
// repeat the call until all is done.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

/// Calls `call(done)`, which answers as read(2) does, until `size` bytes are done or there are no
/// more; how many are done.
template <class Call>
Result<u64> do_whole(u64 size, const Call& call) {
    u64 done = 0;
    while (done < size) {
        const ssize_t now = call(done);
        if (now < 0 && errno == EINTR) continue;
        if (now < 0) return static_cast<Errc>(errno);
        if (now == 0) break;
        done += static_cast<u64>(now);
    }
    return done;
}

/// Reads from `offset` on until `target` is full or the file ends; how many bytes.
inline Result<u64> read_fully(int file, u64 offset, std::span<std::byte> target) {
    return do_whole(target.size(), [&](u64 done) {
        return ::pread(file, target.data() + done, target.size() - done,
                       static_cast<off_t>(offset + done));
    });
}

inline Errc write_fully(int file, u64 offset, std::span<const std::byte> source) {
    const Result<u64> written = do_whole(source.size(), [&](u64 done) {
        return ::pwrite(file, source.data() + done, source.size() - done,
                        static_cast<off_t>(offset + done));
    });
    return written && *written != source.size() ? Errc::io : written.code();
}

/// At the descriptor's file position, or for files without offsets.
inline Errc write_fully(int file, std::span<const std::byte> source) {
    const Result<u64> written = do_whole(source.size(), [&](u64 done) {
        return ::write(file, source.data() + done, source.size() - done);
    });
    return written && *written != source.size() ? Errc::io : written.code();
}

}  // namespace warren
