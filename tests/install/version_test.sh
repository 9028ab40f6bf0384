#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# project() in CMakeLists.txt states the version. What cannot be generated from it agrees: the
# Debian packages, whose C++ library has the version in its name.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
version=$(sed -n 's/^project(warren VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
[[ -n $version ]] || { echo "CMakeLists.txt states no version"; exit 1; }
check() {
    [[ $2 == "$3" ]] || { echo "$1: '$2', not '$3'"; exit 1; }
}
check "warren --version" "$("$WARREN" --version)" "warren $version"
check "debian/changelog" "$(sed -n '1s/.*(\(.*\)).*/\1/p' "$root/debian/changelog")" "$version"
check "debian/control" "$(grep -o '^Package: libwarren[0-9].*' "$root/debian/control")" \
    "Package: libwarren$version"
check "debian/*.install" "$(cd "$root/debian" && ls libwarren[0-9]*)" "libwarren$version.install"
echo "all say $version"
