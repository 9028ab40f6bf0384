#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheels of the Python package into build-wheel: with the machine's Python, and, if there
# is one, with Python 3.12, whose wheel serves all later versions. auditwheel adds libfuse3 and
# finds the tag of the oldest glibc that the wheel runs with.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=${WARREN_WHEEL_OUTPUT:-$root/build-wheel}
tools=$root/.toolchain/python
build_type=${WARREN_WHEEL_BUILD_TYPE:-Release}
name=warren cuda=OFF size_max=12000000

usage() {
    cat <<'TEXT'
usage: ./dev wheel [--cuda]

  --cuda   build warren-cu13, which has the CUDA engine too, instead of warren; it needs nvcc 13

Environment: WARREN_JOBS limits parallel jobs. WARREN_NO_BOOTSTRAP=1 fetches nothing and builds with
the machine's Python alone. WARREN_WHEEL_OUTPUT is a folder to take instead of build-wheel,
WARREN_WHEEL_BUILD_TYPE a build type to take instead of Release.
TEXT
}

die() {
    printf 'wheel: %s\n' "$*" >&2
    exit 1
}

while [[ $# -gt 0 ]]; do
    case $1 in
        --cuda) name=warren-cu13 cuda=ON size_max=40000000 ;;
        -h | --help) usage && exit 0 ;;
        *) usage >&2 && exit 2 ;;
    esac
    shift
done
[[ -x $tools/bin/auditwheel ]] || die "auditwheel is missing: run ./dev bootstrap python"

# The interpreters to build with.
pythons=("$tools/bin/python")
if [[ ${WARREN_NO_BOOTSTRAP:-0} != 1 ]] &&
    ! "${pythons[0]}" -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then
    for python in python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12.*/bin/python3.12; do
        "$python" -c 'import ensurepip' 2>/dev/null || continue
        rm -rf "$output/python3.12"
        "$python" -m venv "$output/python3.12"
        "$output/python3.12/bin/python" -m pip install --quiet --disable-pip-version-check \
            $(grep -E '^(scikit-build-core|nanobind)=' "$root/python/tests/requirements.txt")
        pythons+=("$output/python3.12/bin/python")
        break
    done
fi

mkdir -p "$output"
rm -rf "$output"/*.whl "$output/plain" "$output/project"
project=$root/python
if [[ $name != warren ]]; then
    project=$output/project
    mkdir "$project"
    sed -e "s|^name = \"warren\"$|name = \"$name\"|" \
        -e "s|\[\"warren\"\]|[\"$root/python/warren\"]|" \
        -e "s|\"\.\.\(/[^\"]*\)\?\"|\"$root\1\"|" "$root/python/pyproject.toml" \
        >"$project/pyproject.toml"
fi
# The compiler is called as for the presets, in the same locale and from a folder next to theirs, so
# that ccache finds what they compiled.
export CXX=${CXX:-c++} CCACHE_BASEDIR=$root CMAKE_BUILD_PARALLEL_LEVEL=${WARREN_JOBS:-$(nproc)}
export CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content
for python in "${pythons[@]}"; do
    rm -rf "$output.build"
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-index \
        --no-build-isolation --wheel-dir "$output/plain" \
        --config-settings build-dir="$output.build" \
        --config-settings cmake.build-type="$build_type" \
        --config-settings cmake.define.WARREN_CUDA="$cuda" \
        --config-settings cmake.define.WARREN_CCACHE=ON \
        --config-settings cmake.define.WARREN_WERROR=ON \
        "$project" </dev/null
done
rm -rf "$output.build"

for wheel in "$output"/plain/*.whl; do
    PATH=$tools/bin:$PATH auditwheel repair --plat auto --wheel-dir "$output" "$wheel" >&2
done
for wheel in "$output"/*.whl; do
    size=$(stat -c %s "$wheel")
    ((size <= size_max)) || die "$wheel has $size bytes, of $size_max that are allowed"
    printf '%s  %d bytes\n' "$wheel" "$size"
done
