// SPDX-License-Identifier: Apache-2.0
// A thin layer between libfuse and /dev/fuse, for features that libfuse 3.14 lacks: the offer that
// the file system clears set-user-id bits (without it the kernel requests an extended attribute
// before every write(2)), the flag of a request that they are to be cleared, requests for an
// unnamed file (O_TMPFILE) and for the birth time (FUSE_STATX), and the offer to map files that are
// opened past the page cache. It also sees which requests were answered.
//
// Invariant: bytes pass unchanged, except for the two offers accepted in the reply to the first
// request, and the opcodes of requests that libfuse does not know.
#pragma once

#include <string_view>

#include "apps/fuse/library.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

/// The name in a request to create an unnamed file.
inline constexpr std::string_view unnamed_file = "/";

/// Inserts the layer below a mounted session. Returns false, without any change, if libfuse
/// refuses.
bool install_device_layer(fuse_session* session);

/// Whether the current request of this thread comes from a process whose writes clear the
/// set-user-id bit of the file.
bool clears_privileges();

/// Whether the current request of this thread for attributes is to be answered by reply_statx().
bool is_statx();

/// Whether this thread has answered the request that it read last, or took over from another thread
/// by take_request_over().
bool has_answered();
void take_request_over();

/// Whether the kernel supports files opened past its page cache like any others: they can be
/// mapped, and it can be told to forget their inodes, since it does not notice that writes change
/// their times.
bool takes_direct_opens();

/// Makes the kernel forget a node that is not in use. The call waits for pending requests about the
/// node, so a thread that serves requests must not make it. Requires: takes_direct_opens().
void make_kernel_forget(fuse_session* session, u64 node);

/// The number of requests received from the kernel since the program started.
u64 requests_read();

}  // namespace warren::fuse
