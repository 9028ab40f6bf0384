// SPDX-License-Identifier: Apache-2.0
// For loops that look at memory until another thread has changed it.
#pragma once

namespace warren {

/// Leaves the processor's units to whoever shares them, for some tens of nanoseconds.
inline void pause_processor() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

}  // namespace warren
