/* SPDX-License-Identifier: Apache-2.0 */
/* C99 and C++: no ring can be had of a file system that is not Warren's. */
#include <stdio.h>
#include <warren/mount_ring.h>

int main(void) {
    warren_mount_ring* ring = NULL;
    const int error = warren_mount_ring_open("/proc", &ring);

    printf("%s\n", error != 0 && ring == NULL ? "refused" : "opened");
    warren_mount_ring_close(ring);
    return 0;
}
