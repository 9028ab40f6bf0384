// SPDX-License-Identifier: Apache-2.0
// A thin layer between libfuse and the kernel's device, for what libfuse 3.14 drops: the kernel's
// offer that the file system clears set-user-id bits itself (without it every write(2) asks for an
// extended attribute first), the mark on a request that they are to be cleared, the requests for a
// file without a name (O_TMPFILE) and for the time of birth (FUSE_STATX), and the offer to map what
// is opened past the page cache. It also sees which requests have been answered.
//
// Invariant: bytes pass unchanged, but for two offers accepted in the answer to the first request,
// and the kind of requests that libfuse does not know.
#pragma once

#include <string_view>

#include "apps/fuse/library.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

/// The name with which a request to create a file asks for one without a name.
inline constexpr std::string_view unnamed_file = "/";

/// Puts the layer under a mounted session. False, and nothing is changed, if libfuse refuses.
bool install_device_layer(fuse_session* session);

/// Whether the request that this thread works on came from somebody whose writes clear the
/// set-user-id bit of the file.
bool clears_privileges();

/// Whether the request for attributes that this thread works on wants reply_statx().
bool is_statx();

/// Whether this thread has answered the request that it read last, or that it took over from
/// another thread by take_request_over().
bool has_answered();
void take_request_over();

/// Whether the kernel can have files open past its page cache as any others: they can be mapped,
/// and it can be made to forget them, for it does not see that their writes change their times.
bool takes_direct_opens();

/// Makes the kernel forget a node that nobody uses. It waits for requests about the node that are
/// under way, so no thread that serves requests may call this. Requires: takes_direct_opens().
void make_kernel_forget(fuse_session* session, u64 node);

/// The requests that the kernel has sent since the program began.
u64 requests_read();

}  // namespace warren::fuse
