// SPDX-License-Identifier: Apache-2.0
// The kernel is told to drop every name that the volume now has in a directory that the kernel
// knows. A name that it caches but that no longer exists leads to an inode that returns ESTALE,
// after which the kernel looks it up again.
#include "apps/fuse/recovery.hpp"

#include "apps/fuse/invalidator.hpp"
#include "apps/fuse/log.hpp"

namespace warren::fuse {

namespace {

/// Invalidates what the kernel caches of each inode, and the entries of directories.
void drop_all(MountState& mount) {
    auto queue = std::make_unique<Invalidator::Queue>(*mount.invalidator);
    for (const NodeTable::Use& use : mount.nodes.in_use()) {
        const u64 node = mount.nodes.node_of(use.handle.inode);
        std::vector<StaleName> stale;
        if (mount.nodes.is_directory(node)) {
            static_cast<void>(mount.volume.access()->read_directory(
                use.handle, 0, [&](const DirectoryEntry& entry) {
                    stale.push_back({node, 0, std::string(entry.name), {}});
                    return true;
                }));
        }
        stale.push_back({node, 0, "", {}});
        // The others do not wait for a directory whose lock a process holds.
        if (!queue->drop(std::move(stale), false)) {
            queue = std::make_unique<Invalidator::Queue>(*mount.invalidator);
        }
    }
}

}  // namespace

void Recovery::note_loss(const std::string& line) {
    log_line(line);
    {
        std::lock_guard lock(mutex_);
        is_lost_ = true;
    }
    changed_.notify_all();
}

void Recovery::start(MountState& mount) {
    thread_ = std::thread([this, &mount] { run(mount); });
}

void Recovery::stop() {
    {
        std::lock_guard lock(mutex_);
        is_ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void Recovery::run(MountState& mount) {
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_lost_ || is_ending_; });
        if (is_ending_) return;
    }
    mount.volume.leave_gpu(mount.nodes, [&] {
        for (const u64 node : mount.unsaved.lose(mount.opens.last()))
            mount.nodes.renew(node);
    });
    drop_all(mount);
    log_line(
        mount.image +
        ": goes on with the CPU engine from the last commit; what was not yet durable is lost");
}

}  // namespace warren::fuse
