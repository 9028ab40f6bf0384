#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A step of .ci/run that fails, is killed, or does not end in its time ends the run with status 1,
# tests under a sanitizer included, and the end of the output says which one it was and why.
set -euo pipefail

steps=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.ci/steps.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
printf '#!/bin/sh\n%s\n' 'kill -KILL $$' >dev
chmod +x dev

# expect STATUS LAST_LINE COMMAND: what a run does that has these steps
expect() {
    local code=0 output
    output=$(bash -c 'set -euo pipefail; step_seconds_max=1; from=; . "$0"; eval "$1"
        echo "all passed"' "$steps" "$3" 2>&1) || code=$?
    [[ $code == "$1" && ${output##*$'\n'} == "$2" ]] ||
        { printf '%s\n' "$3 ended with $code:" "$output"; exit 1; }
}
expect 0 'all passed' 'step one true; step two sleep 0.1'
expect 1 '== FAILED: two: status 3' 'step one true; step two sh -c "exit 3"; step three true'
expect 1 '== FAILED: slow: killed, or not done after 1 s' 'step slow sleep 20'
expect 1 '== FAILED: shot: killed, or not done after 1 s' 'step shot sh -c "kill -KILL \$\$"'
expect 1 '== FAILED: sanitizer: killed, or not done after 1 s' 'test_step sanitizer tsan'
expect 0 'all passed' 'from=la; step first false; step last true'
