// SPDX-License-Identifier: Apache-2.0
// SEEK_DATA and SEEK_HOLE in a file that somebody writes. The kernel holds written pages back and
// does not send them before it asks, so the volume would call fresh data a hole. This thread makes
// the kernel send them first.
//
// Invariant: the thread waits for requests that others answer, so it serves none itself and holds
// no lock; every seek that it took is answered, at the latest in the destructor. It must be stopped
// while requests are still answered: a thread that waits for the kernel to write cannot be
// interrupted and keeps the device open, so it could not be ended.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "apps/fuse/library.hpp"
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
    explicit LateSeeker(fuse_session* session);
    ~LateSeeker();
    LateSeeker(const LateSeeker&) = delete;
    LateSeeker& operator=(const LateSeeker&) = delete;

    /// Answers later, when the kernel has written the file's pages.
    void take(const SeekRequest& seek);
    /// Waits for the seek under way; those that come later are refused.
    void stop();

 private:
    void run();

    fuse_session* session_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<SeekRequest> waiting_;
    bool stopped_ = false;
    bool busy_ = false;  // the thread is in the kernel
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace warren::fuse
