#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzz targets of a build folder: each reads its corpus and then searches for new inputs
# for a time. A crash, a hang, a leak, or too much memory fails the run; the input is kept in the
# build folder, and the run prints its name and the command that repeats it.
#
# usage: tools/fuzz.sh BUILD_FOLDER [TARGET...]
#   WARREN_FUZZ_SECONDS  time for each target (default 60); 0 only reads the corpus
#   WARREN_FUZZ_JOBS     targets that run side by side (default: one for each processor)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:?usage: tools/fuzz.sh BUILD_FOLDER [TARGET...]}
shift
seconds=${WARREN_FUZZ_SECONDS:-60}
[[ $seconds =~ ^[0-9]+$ ]] ||
    { echo "fuzz: WARREN_FUZZ_SECONDS is '$seconds', not a number of seconds" >&2; exit 2; }
jobs=${WARREN_FUZZ_JOBS:-$(nproc)}
targets=("$@")
if [[ ${#targets[@]} == 0 ]]; then
    for program in "$build"/fuzz/fuzz_*; do
        [[ -f $program && -x $program ]] && targets+=("$(basename "$program")")
    done
fi
[[ ${#targets[@]} -gt 0 ]] ||
    { echo "fuzz: no targets in '$build/fuzz': build fuzz_targets first" >&2; exit 2; }

run_one() {
    local target=$1 folder="$build/fuzz/$1.found" log="$build/fuzz/$1.log" code=0
    mkdir -p "$folder"
    local options=(-timeout=25 -rss_limit_mb=2560 -close_fd_mask=3 -print_final_stats=1
        -print_funcs=0 -artifact_prefix="$folder/$target-")
    local corpus="$root/tests/fuzz/corpus/${target#fuzz_}"
    if ((seconds > 0)); then
        "$build/fuzz/$target" "${options[@]}" -max_total_time="$seconds" \
            "$folder" "$corpus" >"$log" 2>&1 </dev/null || code=$?
    else
        "$build/fuzz/$target" "${options[@]}" -runs=0 "$corpus" >"$log" 2>&1 </dev/null || code=$?
    fi
    if ((code == 0)); then
        printf '%s: %s\n' "$target" "$(awk '/^#[0-9]/ {last = $0}
            /number_of_executed_units|peak_rss_mb/ {end = end "  " $1 " " $2}
            END {print last end}' "$log")"
        return 0
    fi
    echo "$target: failed; again by: $build/fuzz/$target INPUT, where INPUT is named below"
    tail -n 60 "$log"
    return 1
}

failed=0
running=0
for target in "${targets[@]}"; do
    [[ -x $build/fuzz/$target ]] ||
        { echo "fuzz: no target '$target' in '$build/fuzz'" >&2; failed=1; continue; }
    run_one "$target" &
    running=$((running + 1))
    if ((running >= jobs)); then
        wait -n || failed=1
        running=$((running - 1))
    fi
done
while ((running > 0)); do
    wait -n || failed=1
    running=$((running - 1))
done
exit $failed
