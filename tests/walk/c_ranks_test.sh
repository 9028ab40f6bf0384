#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A C program can walk with the ranks of an MPI job too: a du of fifty lines, alone and as a job,
# prints the total of du(1), which counts a file with several names once, whichever ranks see them.
set -euo pipefail

for tool in cc du; do
    command -v "$tool" >/dev/null || { echo "no $tool here"; exit 77; }
done
launchers=()
find_launcher() {
    local mpi=$1 says=$2 launcher
    launcher=$(command -v "mpirun.$mpi" || command -v mpirun || true)
    if [[ -z $launcher || $("$launcher" --version 2>&1) != *"$says"* ]]; then
        echo "mpirun of $mpi is not installed"
    elif [[ ! -e $WARREN_BUILD/bin/libwarren-mpi-$mpi.so ]]; then
        echo "built without $mpi"
    else
        launchers+=("$launcher${3:+ $3}")
    fi
}
find_launcher openmpi Open "--oversubscribe --bind-to none --mca mpi_yield_when_idle 1"
find_launcher mpich HYDRA
((${#launchers[@]} > 0)) || exit 77
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Hydra passes the end of its input on to rank 0, and fails if that rank has ended before: jobs read
# a pipe that does not end. In a folder for all jobs, Open MPI removes what another job needs.
mkfifo "$folder/input"
exec 0<>"$folder/input"
mkdir "$folder/ompi"
export OMPI_MCA_orte_tmpdir_base=$folder/ompi
cat >"$folder/du.c" <<'TEXT'
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <warren/walk.h>

static int visit(const warren_walk_entry *entry, void *context) {
    const struct statx *status =
        warren_walk_status(entry, STATX_TYPE | STATX_NLINK | STATX_INO | STATX_BLOCKS);
    (void)context;
    if (status == NULL) return WARREN_WALK_GO_ON;
    if (S_ISDIR(status->stx_mode)) {
        *(uint64_t *)warren_walk_own_result(entry) += status->stx_blocks;
    } else {
        uint64_t blocks = status->stx_blocks;
        warren_walk_add_once(entry, status, &blocks);
    }
    return WARREN_WALK_GO_ON;
}

static void merge(void *into, const void *from, void *context) {
    (void)context;
    *(uint64_t *)into += *(const uint64_t *)from;
}

int main(int count, char **words) {
    char problem[200];
    warren_walk_options options;
    warren_walk_callbacks callbacks;
    warren_walk_totals totals;
    uint64_t blocks = 0;
    if (count != 3) return 2;
    memset(&options, 0, sizeof options);
    memset(&callbacks, 0, sizeof callbacks);
    options.group = warren_walk_mpi_group(problem, sizeof problem);
    options.scheduler = (uint32_t)atoi(words[1]);
    options.result_bytes = sizeof blocks;
    options.queue_bytes = 1;
    callbacks.visit = visit;
    callbacks.merge = merge;
    if (options.group == NULL && problem[0] != '\0') return fprintf(stderr, "%s\n", problem), 3;
    const char *root = words[2];
    if (warren_walk(&root, 1, &options, &callbacks, NULL, &blocks, &totals) != 0) return 4;
    if (options.group != NULL && totals.own_entries > totals.entries) return 5;
    if (options.group == NULL || warren_walk_rank(options.group) == 0) {
        printf("%llu ranks %u\n", (unsigned long long)blocks * 512,
               options.group == NULL ? 1 : warren_walk_ranks(options.group));
    }
    return totals.failures == 0 ? 0 : 1;
}
TEXT
uring=$(sed -n 's/^WARREN_URING_LIBRARY:FILEPATH=\(.*[^D]\)$/\1/p' "$WARREN_BUILD/CMakeCache.txt")
cc -std=c99 -Wall -Wextra -Werror -I"$source_folder/include" "$folder/du.c" -o "$folder/du" \
    "$WARREN_BUILD"/libwarren_{walk,base}.a $uring -lstdc++ -lpthread -ldl -lm

mkdir -p "$folder/tree"/{a,b,c}/{d,e}
for directory in "$folder/tree"/*/*; do
    head -c 10000 /dev/urandom >"$directory/file"
    ln "$folder/tree/a/d/file" "$directory/link" # seven names on whatever ranks
done
expected=$(du -s -B1 "$folder/tree" | cut -f1)
export LD_LIBRARY_PATH=$WARREN_BUILD/bin OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
expect() {
    local ranks=$1 told
    shift
    told=$("$@" "$folder/tree")
    echo "$*: $told"
    [[ $told == "$expected ranks $ranks" ]]
}
expect 1 "$folder/du" 0
for launcher in "${launchers[@]}"; do
    expect 2 $launcher -np 2 "$folder/du" 0
    expect 3 $launcher -np 3 "$folder/du" 1 # cp: rank 0 keeps the queue
done
