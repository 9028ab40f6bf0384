// SPDX-License-Identifier: Apache-2.0
// No exception leaves the library: a call that runs out of memory returns Errc::no_memory. An
// operation that must not stop halfway allocates its memory first, so that nothing has to be
// undone.
#pragma once

#include <new>
#include <system_error>
#include <type_traits>

#include "warren/result.hpp"

namespace warren {

/// Returns the result of `body`, or Errc::no_memory if memory or threads run out in it. The result
/// of a `body` that returns nothing is Errc::ok.
template <class Body>
auto or_no_memory(const Body& body)
    -> std::conditional_t<std::is_void_v<decltype(body())>, Errc, decltype(body())> {
    try {
        if constexpr (std::is_void_v<decltype(body())>) {
            body();
            return Errc::ok;
        } else {
            return body();
        }
    } catch (const std::bad_alloc&) {
        return Errc::no_memory;
    } catch (const std::system_error&) {
        return Errc::no_memory;
    }
}

}  // namespace warren
