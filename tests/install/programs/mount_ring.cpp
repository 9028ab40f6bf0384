// SPDX-License-Identifier: Apache-2.0
// C++: no ring can be had of a file system that is not Warren's.
#include <warren/mount_ring.hpp>

#include <cstdio>

int main() {
    warren::Failure failure;
    const auto ring = warren::MountRing::open("/proc", failure);
    const bool refused = ring == nullptr && !failure.message.empty();
    std::puts(refused ? "refused" : "opened");
    return 0;
}
