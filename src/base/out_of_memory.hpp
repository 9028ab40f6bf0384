// SPDX-License-Identifier: Apache-2.0
// No exception leaves the library: a call that runs out of memory returns Errc::no_memory. An
// operation that must not stop halfway allocates its memory first, so that nothing has to be
// undone.
#pragma once

#include <new>
#include <system_error>

#include "warren/result.hpp"

namespace warren {

/// Returns the result of `body`, or Errc::no_memory if memory or threads run out in it.
template <class Body>
auto or_no_memory(const Body& body) -> decltype(body()) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return Errc::no_memory;
    } catch (const std::system_error&) {
        return Errc::no_memory;
    }
}

}  // namespace warren
