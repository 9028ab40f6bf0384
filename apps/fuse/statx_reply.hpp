// SPDX-License-Identifier: Apache-2.0
// statx(2) with the birth time: the request FUSE_STATX of Linux 6.6 and later, which neither
// libfuse 3.14 nor <linux/fuse.h> before 7.39 knows. It begins like FUSE_GETATTR, so it is handled
// as one, with a longer reply.
#pragma once

#include <cstddef>

#include "apps/fuse/library.hpp"
#include "warren/volume.hpp"

namespace warren::fuse {

inline constexpr u32 statx_opcode = 52;

/// The kernel's struct fuse_statx_out.
struct StatxReply {
    struct Time {
        i64 seconds;
        u32 nanoseconds;
        i32 zero;
    };

    u64 valid_seconds;
    u32 valid_nanoseconds;
    u32 flags;
    u64 spare[2];
    u32 mask;
    u32 block_bytes;
    u64 attributes;
    u32 links;
    u32 user;
    u32 group;
    u16 mode;
    u16 spare_mode;
    u64 inode;
    u64 size;
    u64 sectors;
    u64 attributes_mask;
    Time accessed;
    Time born;
    Time changed;
    Time modified;
    u32 special_major;
    u32 special_minor;
    u32 device_major;
    u32 device_minor;
    u64 spare_end[14];
};
static_assert(sizeof(StatxReply) == 288 && offsetof(StatxReply, accessed) == 96);

/// Replies to FUSE_STATX. `seconds`: how long the kernel may cache the attributes.
void reply_statx(fuse_req_t raw, const Attributes& attributes, double seconds);

}  // namespace warren::fuse
