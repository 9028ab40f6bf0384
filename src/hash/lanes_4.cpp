// SPDX-License-Identifier: Apache-2.0
// Multi-buffer hashing for every processor: SSE2 on x86, NEON on ARM. Used on processors without
// wider vectors, and, besides the standard test vectors, as the reference for testing the wider
// ones.

#include "hash/lanes_body.hpp"

namespace warren::hash {

extern const LaneSet lanes_4;
const LaneSet lanes_4 = make_lane_set<4>("4 lanes");

}  // namespace warren::hash
