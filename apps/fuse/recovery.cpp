// SPDX-License-Identifier: Apache-2.0
// The kernel is told to drop every name that the volume now has in a directory that the kernel
// knows. A name that it caches but that no longer exists leads to an inode that returns ESTALE,
// after which the kernel looks it up again.
#include "apps/fuse/recovery.hpp"

#include "apps/fuse/log.hpp"

namespace warren::fuse {

namespace {

/// Invalidates the kernel's cached entries of a directory.
void drop_names(MountState& mount, u64 node, Handle directory) {
    std::vector<std::string> names;
    static_cast<void>(
        mount.volume.access()->read_directory(directory, 0, [&](const DirectoryEntry& entry) {
            names.emplace_back(entry.name);
            return true;
        }));
    for (const std::string& name : names)
        fuse_lowlevel_notify_inval_entry(mount.session, node, name.c_str(), name.size());
}

void drop_all(MountState& mount) {
    for (const NodeTable::Use& use : mount.nodes.in_use()) {
        const u64 node = mount.nodes.node_of(use.handle.inode);
        fuse_lowlevel_notify_inval_inode(mount.session, node, 0, 0);
        if (mount.nodes.is_directory(node)) drop_names(mount, node, use.handle);
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
