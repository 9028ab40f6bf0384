// SPDX-License-Identifier: Apache-2.0
// Wraps the callbacks. libfuse is written in C: an exception that reached it would end the daemon,
// and with it the mount.
//
// Invariant: a callback that runs out of memory answers its request with ENOMEM, unless it has
// answered it already.
#pragma once

#include <cerrno>

#include "apps/fuse/device.hpp"
#include "apps/fuse/library.hpp"
#include "base/out_of_memory.hpp"

namespace warren::fuse {

/// Runs `body`, which answers the request unless it throws.
template <class Body>
void answer_in(fuse_req_t raw, const Body& body) {
    const Errc code = or_no_memory([&] { body(); });
    if (code != Errc::ok && !has_answered()) fuse_reply_err(raw, ENOMEM);
}

template <auto callback>
struct Guard;
template <class... Arguments, void (*callback)(fuse_req_t, Arguments...)>
struct Guard<callback> {
    static void run(fuse_req_t raw, Arguments... arguments) {
        answer_in(raw, [&] { callback(raw, arguments...); });
    }
};

/// `callback` with the signature that libfuse expects.
template <auto callback>
inline constexpr auto guarded = &Guard<callback>::run;

}  // namespace warren::fuse
