// SPDX-License-Identifier: Apache-2.0
// A name that is gone for good is reported as deleted: the kernel then drops everything it caches
// below, and programs that watch it are told. Attributes of the directory go in any case, as the
// kernel leaves them alone if it does not have the name.
#include "apps/fuse/invalidator.hpp"

namespace warren::fuse {

namespace {

void tell_kernel(fuse_session* session, const StaleName& stale) {
    if (!stale.name.empty()) {
        if (stale.child != 0) {
            fuse_lowlevel_notify_delete(session, stale.parent, stale.child, stale.name.c_str(),
                                        stale.name.size());
        } else {
            fuse_lowlevel_notify_inval_entry(session, stale.parent, stale.name.c_str(),
                                             stale.name.size());
        }
    }
    fuse_lowlevel_notify_inval_inode(session, stale.parent, -1, 0);
}

}  // namespace

Invalidator::Invalidator(fuse_session* session) : session_(session), thread_([this] { run(); }) {}

Invalidator::~Invalidator() {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void Invalidator::drop(std::vector<StaleName> stale) {
    Batch batch{&stale, false};
    std::unique_lock lock(mutex_);
    batches_.push_back(&batch);
    changed_.notify_all();
    changed_.wait(lock, [&] { return batch.done; });
}

void Invalidator::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return ending_ || !batches_.empty(); });
        if (batches_.empty()) return;
        Batch* batch = batches_.front();
        batches_.pop_front();
        lock.unlock();
        for (const StaleName& stale : *batch->stale)
            tell_kernel(session_, stale);
        lock.lock();
        batch->done = true;
        changed_.notify_all();
    }
}

}  // namespace warren::fuse
