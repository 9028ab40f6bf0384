// SPDX-License-Identifier: Apache-2.0
// A removed directory is reported to the kernel as deleted. The kernel then drops everything it
// caches below, which takes about as long as unlinking the files one by one, and locks the parent
// directory meanwhile. Therefore the directory's contents are dropped first, name by name, under
// the lock of the removed directory, which no process needs. The attributes of the parent are
// dropped in any case, since the kernel leaves them alone if it does not cache the name.
#include "apps/fuse/invalidator.hpp"

#include "apps/fuse/device.hpp"
#include "base/out_of_memory.hpp"

namespace warren::fuse {

Invalidator::Invalidator(fuse_session* session, IsThere is_there)
    : session_(session), is_there_(std::move(is_there)), thread_([this] { run(); }) {}

Invalidator::~Invalidator() {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void Invalidator::drop(std::vector<StaleName> stale, bool can_expire) {
    Batch batch{&stale, can_expire};
    std::unique_lock lock(mutex_);
    *end_ = &batch;
    end_ = &batch.next;
    changed_.notify_all();
    changed_.wait(lock, [&] { return batch.done; });
}

void Invalidator::forget(u64 node) {
    const std::lock_guard lock(mutex_);
    static_cast<void>(or_no_memory([&] {
        closed_.push_back(node);
        return Errc::ok;
    }));
    changed_.notify_all();
}

void Invalidator::tell(const StaleName& stale, bool can_expire) {
    const char* name = stale.name.c_str();
    if (stale.name.empty()) {
        // Only attributes, which are dropped below.
    } else if (stale.child == 0) {
        fuse_lowlevel_notify_inval_entry(session_, stale.parent, name, stale.name.size());
    } else if (can_expire) {
        fuse_lowlevel_notify_expire_entry(session_, stale.parent, name, stale.name.size(),
                                          FUSE_LL_EXPIRE_ONLY);
        note_removed(stale);
    } else {
        fuse_lowlevel_notify_delete(session_, stale.parent, stale.child, name, stale.name.size());
    }
}

/// The entries below only use memory of the kernel: without memory for a note they stay cached.
void Invalidator::note_removed(const StaleName& stale) {
    static_cast<void>(or_no_memory([&] {
        for (const std::string& below : stale.below)
            removed_.push_back({stale.child, 0, below, {}});
        removed_.push_back({stale.parent, stale.child, stale.name, {}});
        return Errc::ok;
    }));
}

/// Drops the attributes of a directory, and the names of a listing that was read with readdir(3).
void Invalidator::drop_listing(u64 directory) {
    fuse_lowlevel_notify_inval_inode(session_, directory, 0, 0);
}

void Invalidator::tell_all(const std::vector<StaleName>& all, bool can_expire) {
    for (std::size_t i = 0; i < all.size(); ++i) {
        tell(all[i], can_expire);
        // Once for consecutive names of one directory, after the last of them.
        const bool is_last = i + 1 == all.size() || all[i + 1].parent != all[i].parent;
        if (is_last) drop_listing(all[i].parent);
    }
}

void Invalidator::clean_up(const StaleName& removed) {
    // If the name exists again, a look-up of it has made the kernel drop the old entries.
    if (is_there_(removed.parent, removed.name)) return;
    tell(removed, false);
    drop_listing(removed.parent);
}

/// Removes the batch that has waited longest. Requires: there is one.
Invalidator::Batch* Invalidator::take_batch() {
    Batch* batch = first_;
    first_ = batch->next;
    if (first_ == nullptr) end_ = &first_;
    return batch;
}

void Invalidator::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] {
            return ending_ || first_ != nullptr || !closed_.empty() || !removed_.empty();
        });
        if (first_ != nullptr) {
            Batch* batch = take_batch();
            lock.unlock();
            tell_all(*batch->stale, batch->can_expire);
            lock.lock();
            batch->done = true;
            changed_.notify_all();
        } else if (ending_) {
            return;
        } else if (!closed_.empty()) {
            const u64 node = closed_.front();
            closed_.pop_front();
            lock.unlock();
            make_kernel_forget(session_, node);
            lock.lock();
        } else {
            const StaleName removed = std::move(removed_.front());
            removed_.pop_front();
            lock.unlock();
            clean_up(removed);
            lock.lock();
        }
    }
}

}  // namespace warren::fuse
