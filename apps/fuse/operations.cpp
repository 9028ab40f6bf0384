// SPDX-License-Identifier: Apache-2.0
// The capabilities negotiated with the kernel at the start, and why:
// - The kernel checks permission and access control lists, keeps dirty pages and sizes (writeback
//   cache), and looks up by number and generation for NFS.
// - flush replies ENOSYS unless an engine may lose written data (contents.cpp): pages are written
//   before it, and the kernel sends no more after one ENOSYS.
// - Locks are not implemented: only this kernel accesses the files, so its own locks suffice.
// - Direct I/O is sequential in each thread: if one of several concurrent requests is short, the
//   kernel returns EIO, and after an asynchronous write it leaves stale pages (DESIGN.md).
// - No splice: the volume reads and writes memory, so a pipe would only add a copy.
#include "apps/fuse/operations.hpp"

#include <algorithm>

#include "apps/fuse/mount.hpp"
#include "apps/fuse/mount_state.hpp"

namespace warren::fuse {

namespace {

void initialise(void* user_data, fuse_conn_info* connection) {
    constexpr unsigned wanted =
        FUSE_CAP_ASYNC_READ | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_EXPORT_SUPPORT |
        FUSE_CAP_DONT_MASK | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
        FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_POSIX_ACL |
        FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPLICIT_INVAL_DATA;
    // The older of two ways to clear set-user-id bits; device.cpp requests the newer one.
    constexpr unsigned unwanted = FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_AUTO_INVAL_DATA |
                                  FUSE_CAP_ASYNC_DIO | FUSE_CAP_IOCTL_DIR | FUSE_CAP_SPLICE_READ |
                                  FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE;
    connection->want |= wanted & connection->capable;
    connection->want &= ~unwanted;
    connection->max_read = request_limit_bytes;
    connection->max_write = std::min(connection->max_write, request_limit_bytes);
    connection->max_background = 128;
    connection->congestion_threshold = 96;
    connection->time_gran = 1;
    static_cast<MountState*>(user_data)->can_expire.store(
        (connection->capable & FUSE_CAP_EXPIRE_ONLY) != 0, std::memory_order_relaxed);
}

}  // namespace

fuse_lowlevel_ops operations() {
    fuse_lowlevel_ops all{};
    all.init = initialise;
    add_name_operations(all);
    add_directory_operations(all);
    add_inode_operations(all);
    add_content_operations(all);
    return all;
}

}  // namespace warren::fuse
