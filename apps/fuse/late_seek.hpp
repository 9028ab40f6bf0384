// SPDX-License-Identifier: Apache-2.0
// SEEK_DATA and SEEK_HOLE in a file that somebody writes. The kernel holds written pages back and
// does not send them before it asks, so the volume would call fresh data a hole. This thread makes
// the kernel send them first.
//
// Invariant: waits for requests that others answer, so it serves none itself and holds no lock; and
// every seek that it took is answered, at the latest in the destructor.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "apps/fuse/library.hpp"
#include "apps/fuse/mount_state.hpp"
#include "warren/volume.hpp"

namespace warren::fuse {

/// One request of the kernel: the first data or hole of an open file from an offset on.
struct SeekRequest {
    fuse_req_t raw = nullptr;
    u64 node = 0;
    Handle file;
    u64 offset = 0;
    Seek whence = Seek::data;
};

/// Asks the volume and answers the kernel.
void answer_seek(const SeekRequest& seek);

class LateSeeker {
 public:
    explicit LateSeeker(MountState& mount) : mount_(mount), thread_([this] { run(); }) {}
    ~LateSeeker();
    LateSeeker(const LateSeeker&) = delete;
    LateSeeker& operator=(const LateSeeker&) = delete;

    /// Answers later, when the kernel has written the file's pages.
    void take(const SeekRequest& seek);

 private:
    void run();
    /// Makes the kernel write the pages of the file; false if we come to an end.
    bool write_out(const SeekRequest& seek);

    MountState& mount_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<SeekRequest> waiting_;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace warren::fuse
