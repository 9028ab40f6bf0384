// SPDX-License-Identifier: Apache-2.0
// An engine that finds no work stops looking, and the next command wakes it. Neither side may miss
// the other: the client writes its command, fences and reads `parked`; the engine sets `parked`,
// fences and looks at all rings once more. One of the two sees what the other wrote.
//
// Invariant: a wait for a wake ends by itself after its time; a wake that is lost costs time only.
#pragma once

#include "fs/ring/ring.hpp"

namespace warren::ring {

/// Tells the engine of commands in ring `index`, and wakes it if it is parked; then true.
/// Requires: one caller at a time for a ring.
bool ring_doorbell(Doorbell& doorbell, const ServerStatus& status, u32 index);

/// The engine's wake counter, to be read before begin_parking().
u32 wakes_seen(const Doorbell& doorbell);

/// Says that nobody looks at the doorbell. The caller then looks at all rings once more, and calls
/// end_parking() if there is a command after all.
void begin_parking(ServerStatus& status);
void end_parking(ServerStatus& status);

/// Waits until the wake counter differs from `seen`, or for `milliseconds`.
void wait_for_wake(const Doorbell& doorbell, u32 seen, u32 milliseconds);

/// Lets a waiting engine look around: somebody in its own process wants something else of it.
void wake(Doorbell& doorbell);

}  // namespace warren::ring
