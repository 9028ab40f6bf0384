// SPDX-License-Identifier: Apache-2.0
// For loops that poll memory until another thread changes it.
#pragma once

namespace warren {

/// Yields the core's execution units to its other hardware thread for some tens of nanoseconds.
inline void pause_processor() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

}  // namespace warren
