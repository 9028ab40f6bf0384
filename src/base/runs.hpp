// SPDX-License-Identifier: Apache-2.0
// Runs of neighbouring numbers, for requests that can take many of them at once.
#pragma once

#include "warren/result.hpp"

namespace warren {

/// Calls `body(first, last + 1)` for each longest run of numbers in [begin, end) for which
/// `is_in(number)` is true, until it returns an error.
template <class IsIn, class Body>
Errc for_each_run(u64 begin, u64 end, const IsIn& is_in, const Body& body) {
    for (u64 first = begin; first < end; ++first) {
        if (!is_in(first)) continue;
        u64 behind = first + 1;
        while (behind < end && is_in(behind))
            ++behind;
        WARREN_TRY(body(first, behind));
        first = behind;  // which is not in the run
    }
    return Errc::ok;
}

}  // namespace warren
