// SPDX-License-Identifier: Apache-2.0
// Tells the kernel which cached names and attributes are no longer true after the daemon changed
// the volume on its own (a bulk command). The kernel takes its own locks for that, so it is done by
// one thread that holds no lock of ours and serves no request.
//
// Invariant: drop() returns when the kernel has been told everything.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/fuse/library.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

/// One thing that the kernel should not believe any more.
struct StaleName {
    u64 parent = 0;    // node of the directory
    u64 child = 0;     // node that the name led to, if it is gone for good; else 0
    std::string name;  // empty: only the attributes of `parent`
};

class Invalidator {
 public:
    explicit Invalidator(fuse_session* session);
    ~Invalidator();  // tells what is left, then ends
    Invalidator(const Invalidator&) = delete;
    Invalidator& operator=(const Invalidator&) = delete;

    void drop(std::vector<StaleName> stale);

 private:
    struct Batch {
        const std::vector<StaleName>* stale = nullptr;
        bool done = false;
    };

    void run();

    fuse_session* session_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Batch*> batches_;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace warren::fuse
