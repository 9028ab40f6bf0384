/* SPDX-License-Identifier: Apache-2.0 */
/* C99 and C++: how many entries the tree at the argument has. */
#include <stdio.h>
#include <warren/walk.h>

static int visit(const warren_walk_entry* entry, void* context) {
    (void)entry;
    (void)context;
    return WARREN_WALK_GO_ON;
}

int main(int argc, char** argv) {
    const char* roots[1];
    warren_walk_callbacks callbacks = {visit, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    warren_walk_totals totals;

    if (argc != 2) return 2;
    roots[0] = argv[1];
    if (warren_walk(roots, 1, NULL, &callbacks, NULL, NULL, &totals) != 0) return 1;
    printf("%lu entries\n", (unsigned long)totals.entries);
    return 0;
}
