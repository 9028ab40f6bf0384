# SPDX-License-Identifier: Apache-2.0
# The steps of .ci/run, which reads this file. A step that fails, is killed, or takes more than
# $step_seconds_max ends the run with status 1. Steps before the one whose name begins with $from
# are passed over. tests/check/ci_steps_test.sh tries it.

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
finished=()

# Sets `processor` to the seconds of processor time that all commands took so far.
read_processor() {
    times >"$scratch/times"
    processor=$(awk 'NR == 2 { gsub(/[ms]/, " "); print int($1 * 60 + $2 + $3 * 60 + $4) }' \
        "$scratch/times")
}

begin() {
    name=$1
    begun=$SECONDS
    read_processor
    processor_begun=$processor
    printf '\n== %s (after %d s)\n' "$name" "$SECONDS"
}

end() {
    read_processor
    finished+=("$(printf '%6d s %6d s  %s' $((SECONDS - begun)) $((processor - processor_begun)) \
        "$name")")
}

print_times() {
    printf '\n== seconds, seconds of processor time, step\n'
    printf '%s\n' "${finished[@]}"
}

fail() {
    [[ ! -e $scratch/report.xml ]] || python3 tools/show_failures.py "$scratch/report.xml"
    print_times
    printf '\n== FAILED: %s: %s\n' "$name" "$1"
    exit 1
}

# Prints and runs a command, for the time of a step at most.
limited() {
    local code=0
    printf '%s\n' "+ $*"
    timeout --kill-after=30 "$step_seconds_max" "$@" || code=$?
    case $code in
        0) ;;
        124 | 137) fail "killed, or not done after $step_seconds_max s" ;;
        *) fail "status $code" ;;
    esac
}

# Whether the run has come to the step from which it is to go on.
reached() {
    [[ $1 != "$from"* ]] || from=
    [[ -z $from ]]
}

# step NAME COMMAND...
step() {
    reached "$1" || return 0
    begin "$1"
    limited "${@:2}"
    end
}

# test_step NAME PRESET [ARGUMENT OF CTEST...]: fails, too, if a test was skipped that must not be.
# The ends of failed tests' outputs are repeated where a reader looks first.
test_step() {
    reached "$1" || return 0
    begin "$1"
    limited ./dev test "${@:2}" --output-junit "$scratch/report.xml" \
        --test-output-truncation tail
    python3 tools/check_skips.py "$scratch/report.xml" || fail "skipped tests"
    rm -f "$scratch/report.xml"
    end
}
