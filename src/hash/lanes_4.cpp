// SPDX-License-Identifier: Apache-2.0
// Multi-buffer hashing for every processor: SSE2 where it is an x86, NEON where it is an ARM. It is
// what runs on a processor without wider vectors, and what their results are tested against, beside
// the standard vectors.

#include "hash/lanes_body.hpp"

namespace warren::hash {

extern const LaneSet lanes_4;
const LaneSet lanes_4 = make_lane_set<4>("4 lanes");

}  // namespace warren::hash
