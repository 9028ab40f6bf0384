#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages from the files that git tracks, as they are in the working tree, into
# build-package, and checks them with lintian.
set -euo pipefail
export LC_ALL=C.UTF-8

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=$root/build-package
check= profiles=

usage() {
    cat <<'TEXT'
usage: ./dev package [--cuda] [--check]

  --cuda   build warren-cuda as well (profile pkg.warren.cuda); it needs nvcc 13
  --check  install, try and remove the packages in a fresh Debian (tools/check_package.sh; root)

Environment: WARREN_JOBS limits parallel jobs; WARREN_NO_BOOTSTRAP=1 installs nothing.
TEXT
}

die() {
    printf 'package: %s\n' "$*" >&2
    exit 1
}

while [[ $# -gt 0 ]]; do
    case $1 in
        --cuda) profiles=pkg.warren.cuda ;;
        --check) check=1 ;;
        -h | --help) usage && exit 0 ;;
        *) usage >&2 && exit 2 ;;
    esac
    shift
done
command -v apt-get >/dev/null || die "there is no apt-get here: build on Debian or Ubuntu"

# Build packages, and the dependencies of the packages that are built.
tools=(dpkg-dev debhelper lintian)
[[ -z $check ]] || tools+=(mmdebstrap)
if [[ ${WARREN_NO_BOOTSTRAP:-0} != 1 ]]; then
    if ! dpkg-query -W "${tools[@]}" >/dev/null 2>&1 || ! (cd "$root" && dpkg-checkbuilddeps); then
        printf 'package: installing %s and what debian/control needs\n' "${tools[*]}" >&2
        sudo=()
        [[ $(id -u) == 0 ]] || sudo=(sudo)
        "${sudo[@]}" apt-get -q update >&2
        "${sudo[@]}" apt-get -q -y --no-install-recommends install "${tools[@]}" </dev/null >&2
        "${sudo[@]}" apt-get -q -y --no-install-recommends build-dep "$root" </dev/null >&2
    fi
fi

# The tree always has the same path, so that ccache finds it again.
mkdir -p "$output"
rm -rf "$output"/*.deb "$output"/*.changes "$output"/*.buildinfo "$output/source"
mkdir "$output/source"
(cd "$root" && git ls-files -z | while IFS= read -r -d '' file; do
    [[ ! -e $file && ! -L $file ]] || printf '%s\0' "$file"
done | tar --null -cf - -T -) | tar -xf - -C "$output/source"
if [[ -d /usr/lib/ccache ]]; then
    export PATH=/usr/lib/ccache:$PATH CMAKE_CUDA_COMPILER_LAUNCHER=ccache
    # debhelper gives the build a home directory, which is removed with the tree.
    export CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir)}
fi
[[ -z $profiles ]] || export DEB_BUILD_PROFILES=$profiles
if [[ -z ${CUDACXX:-} && -x $root/.toolchain/cuda/bin/nvcc ]]; then
    export CUDACXX=$root/.toolchain/cuda/bin/nvcc
fi
export DEB_BUILD_OPTIONS=${DEB_BUILD_OPTIONS-nocheck noautodbgsym parallel=${WARREN_JOBS:-$(nproc)}}
(cd "$output/source" && dpkg-buildpackage -b -us -uc >"$output/log" 2>&1) ||
    { tail -n 30 "$output/log" >&2; die "the build failed; all of its output is in $output/log"; }
printf "== lintian\n"
as_root=()
[[ $(id -u) != 0 ]] || as_root=(--allow-root)
lintian "${as_root[@]}" --fail-on error "$output"/*.changes
printf '%s\n' "$output"/*.deb
[[ -z $check ]] || bash "$root/tools/check_package.sh" "$output"/*.deb
