// SPDX-License-Identifier: Apache-2.0
// Handles SEEK_DATA and SEEK_HOLE in a file that is open for writing. The kernel does not write
// back dirty pages before it sends the request, so the volume would report fresh data as a hole.
// This thread makes the kernel write them back first.
//
// Invariant: the thread waits for requests that other threads serve, so it serves none itself and
// holds no lock. Every seek that it took is answered, at the latest in the destructor. It must be
// stopped while requests are still served: a thread that waits for write-back in the kernel cannot
// be interrupted and keeps the device open, so it could not be ended otherwise.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "apps/fuse/library.hpp"
#include "warren/volume.hpp"

namespace warren::fuse {

/// A request of the kernel: find the first data or hole of an open file from an offset on.
struct SeekRequest {
    fuse_req_t raw = nullptr;
    u64 node = 0;
    Handle file;
    u64 offset = 0;
    Seek whence = Seek::data;
};

/// Queries the volume and replies to the kernel.
void answer_seek(const SeekRequest& seek);

class LateSeeker {
 public:
    explicit LateSeeker(fuse_session* session);
    ~LateSeeker();
    LateSeeker(const LateSeeker&) = delete;
    LateSeeker& operator=(const LateSeeker&) = delete;

    /// Replies later, when the kernel has written back the file's pages.
    void take(const SeekRequest& seek);
    /// Waits for the current seek; later ones are refused.
    void stop();

 private:
    void run();

    fuse_session* session_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<SeekRequest> waiting_;
    bool stopped_ = false;
    bool busy_ = false;  // the thread is in a system call
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace warren::fuse
