// SPDX-License-Identifier: Apache-2.0
// All fields that stat(2) has too are converted from its structure.
#include "apps/fuse/statx_reply.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "apps/fuse/request.hpp"
#include "base/file_time.hpp"

namespace warren::fuse {

namespace {

StatxReply::Time to_time(const timespec& time) {
    return {time.tv_sec, static_cast<u32>(time.tv_nsec), 0};
}

}  // namespace

void reply_statx(fuse_req_t raw, const Attributes& attributes, double seconds) {
    const struct stat facts = to_stat(attributes);
    StatxReply reply{};
    reply.valid_seconds = static_cast<u64>(seconds);
    reply.mask = STATX_BASIC_STATS;
    reply.block_bytes = static_cast<u32>(facts.st_blksize);
    reply.links = static_cast<u32>(facts.st_nlink);
    reply.user = facts.st_uid;
    reply.group = facts.st_gid;
    reply.mode = static_cast<u16>(facts.st_mode);
    reply.inode = facts.st_ino;
    reply.size = static_cast<u64>(facts.st_size);
    reply.sectors = static_cast<u64>(facts.st_blocks);
    reply.accessed = to_time(facts.st_atim);
    reply.changed = to_time(facts.st_ctim);
    reply.modified = to_time(facts.st_mtim);
    reply.special_major = major(facts.st_rdev);
    reply.special_minor = minor(facts.st_rdev);
    // A removed inode has no birth time.
    if (attributes.born != 0) {
        reply.mask |= STATX_BTIME;
        reply.born = to_time(to_timespec(attributes.born));
    }
    fuse_reply_buf(raw, reinterpret_cast<const char*>(&reply), sizeof reply);
}

}  // namespace warren::fuse
