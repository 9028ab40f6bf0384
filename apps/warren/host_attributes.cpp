// SPDX-License-Identifier: Apache-2.0
// A file system without birth times leaves them out of the mask; the attribute stays zero then.
#include "apps/warren/host_attributes.hpp"

#include <unistd.h>

#include "base/file_time.hpp"

namespace warren::cli {
namespace {

i64 nanoseconds(const statx_timestamp& time) {
    return file_time(time.tv_sec, time.tv_nsec);
}

}  // namespace

Attributes attributes_of(const struct statx& status) {
    Attributes attributes;
    attributes.handle.inode = status.stx_ino;
    attributes.mode = status.stx_mode;
    attributes.links = status.stx_nlink;
    attributes.user = status.stx_uid;
    attributes.group = status.stx_gid;
    attributes.device = status.stx_rdev_major << 20 | status.stx_rdev_minor;
    attributes.size = status.stx_size;
    attributes.blocks = (status.stx_blocks + 7) / 8;
    attributes.accessed = nanoseconds(status.stx_atime);
    attributes.modified = nanoseconds(status.stx_mtime);
    attributes.changed = nanoseconds(status.stx_ctime);
    if ((status.stx_mask & STATX_BTIME) != 0) attributes.born = nanoseconds(status.stx_btime);
    return attributes;
}

bool EntryAttributes::load(Attributes& attributes, u64& sectors) {
    const struct statx* status = entry_.status(host_fields);
    if (status == nullptr) return false;
    attributes = attributes_of(*status);
    sectors = status->stx_blocks;
    return true;
}

std::string EntryAttributes::link_target() {
    std::string target(4096, '\0');
    const ssize_t size =
        ::readlinkat(entry_.directory(), entry_.name(), target.data(), target.size());
    target.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return target;
}

}  // namespace warren::cli
