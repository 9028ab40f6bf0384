// SPDX-License-Identifier: Apache-2.0
// Invalidating a file's pages makes the kernel write back the dirty ones first; the protocol has no
// milder request. The kernel rereads the pages that it needs.
#include "apps/fuse/late_seek.hpp"

#include <cerrno>

#include "apps/fuse/guard.hpp"
#include "apps/fuse/request.hpp"

namespace warren::fuse {

void answer_seek(const SeekRequest& seek) {
    const Request request(seek.raw, seek.node);
    const Result<u64> found = request.volume->seek(seek.file, seek.offset, seek.whence);
    if (!found) return request.reply(found.code());
    fuse_reply_lseek(seek.raw, static_cast<off_t>(*found));
}

LateSeeker::LateSeeker(fuse_session* session) : session_(session), thread_([this] { run(); }) {}

LateSeeker::~LateSeeker() {
    {
        std::lock_guard lock(mutex_);
        ending_ = stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void LateSeeker::take(const SeekRequest& seek) {
    {
        std::lock_guard lock(mutex_);
        waiting_.push_back(seek);
    }
    changed_.notify_all();
}

void LateSeeker::stop() {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    changed_.wait(lock, [&] { return !busy_; });
}

void LateSeeker::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        const SeekRequest seek = waiting_.front();
        waiting_.pop_front();
        if (stopped_) {
            fuse_reply_err(seek.raw, EIO);
            continue;
        }
        busy_ = true;
        lock.unlock();
        // From the offset on; what lies before does not matter. Length 0 means to the end.
        const auto start = static_cast<off_t>(seek.offset);
        fuse_lowlevel_notify_inval_inode(session_, seek.node, start, 0);
        take_request_over();
        answer_in(seek.raw, [&] { answer_seek(seek); });
        lock.lock();
        busy_ = false;
        changed_.notify_all();
    }
}

}  // namespace warren::fuse
