// SPDX-License-Identifier: Apache-2.0
// No exception leaves a library: a call that finds no memory answers Errc::no_memory. What must not
// end halfway takes its memory first, so that there is nothing to undo when this catches.
#pragma once

#include <new>
#include <system_error>

#include "warren/result.hpp"

namespace warren {

/// What `body` answers, or Errc::no_memory where memory or threads run out in it.
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
