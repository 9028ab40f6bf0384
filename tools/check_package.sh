#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries the given packages in a fresh Debian of this machine's release and sources: installs them,
# runs debian/tests/demo, purges them, and compares the file system with what it was. If warren-cuda
# is among them, it is installed over warren, whose place it has to take, and the demo runs again.
# Root; the network for what the packages depend on. The libraries of libwarren-dev are linked and
# run by tests/install/use_libraries_test.sh, unpacked on this machine.
set -euo pipefail
export LC_ALL=C.UTF-8

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
die() {
    printf 'check_package: %s\n' "$*" >&2
    exit 1
}
[[ $# -gt 0 ]] || die "name the packages (*.deb) to try"
[[ $(id -u) == 0 ]] || die "needs root: it makes a chroot and mounts /proc and /dev/fuse there"
[[ -c /dev/fuse ]] || die "there is no /dev/fuse here (modprobe fuse)"
command -v mmdebstrap >/dev/null || die "mmdebstrap is not installed"

folder=$(mktemp -d)
place=$folder/debian
undo() {
    umount "$place/proc" "$place/dev/fuse" 2>/dev/null || true
    rm -rf --one-file-system "$folder"
}
trap undo EXIT

packages=() cuda=
for package in "$@"; do
    # warren and warren-cuda exclude each other.
    case $(basename "$package") in
        warren-cuda_*) cuda=$(realpath "$package") ;;
        *) packages+=("$(realpath "$package")") ;;
    esac
done

printf '== libraries, unpacked\n'
for package in "${packages[@]}"; do
    [[ $(basename "$package") != libwarren* ]] || dpkg-deb -x "$package" "$folder/libraries"
done
WARREN_PREFIX=$folder/libraries/usr bash "$root/tests/install/use_libraries_test.sh"

printf '== a fresh Debian\n'
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
system=$(. /etc/os-release && echo "$ID")
mmdebstrap --quiet --mode=root --variant=apt --skip=cleanup/apt/lists "$release" "$place" - \
    <"/etc/apt/sources.list.d/$system.sources"
mount -t proc proc "$place/proc"
touch "$place/dev/fuse"
mount --bind /dev/fuse "$place/dev/fuse"
mkdir "$place/packages"
cp "${packages[@]}" ${cuda:+"$cuda"} "$place/packages"
cp "$root/debian/tests/demo" "$place/packages"
inside() {
    chroot "$place" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

# Everything but the records that apt, dpkg and mount(8) keep about any package or mount.
list_files() {
    (cd "$place" && find . -xdev \( -path ./proc -o -path ./var/log -o -path ./var/lib/dpkg \
        -o -path ./var/lib/apt -o -path ./var/cache -o -path ./packages -o -path ./etc/ld.so.cache \
        -o -path ./run/mount \) -prune -o -print | sort)
}
apt() {
    inside apt-get -q -y "$@" >"$folder/log" 2>&1 ||
        { tail -n 30 "$folder/log" >&2; die "apt-get $* failed"; }
}

printf '== installing\n'
names=()
for package in "${packages[@]}"; do
    names+=("$(dpkg-deb -f "$package" Package)")
done
# First install the dependencies and the demo's: files that Debian's packages leave are ignored.
files=("${packages[@]/#*\///packages/}")
mapfile -t needed < <(inside apt-get -s --no-install-recommends install "${files[@]}" fuse3 mount |
    awk '/^Inst/ { print $2 }' | grep -vxF "$(printf '%s\n' "${names[@]}")")
apt --no-install-recommends install "${needed[@]}"
list_files >"$folder/before"
apt --no-install-recommends install "${files[@]}"
printf '== the demo\n'
inside sh /packages/demo
if [[ -n $cuda ]]; then
    printf '== warren-cuda in the place of warren, and the demo\n'
    apt --no-install-recommends install "/packages/$(basename "$cuda")"
    state=$(inside dpkg-query -W -f '${db:Status-Status} ' warren warren-cuda)
    [[ $state == 'config-files installed ' ]] || die "warren and warren-cuda are: $state"
    told=$(inside warren doctor --quick || true)
    engine='engine cuda for sm_80 sm_90 sm_100 sm_120 PTX_120,'
    [[ $told == *"$engine"* ]] || die "'$engine' is not in what doctor says: $told"
    inside sh /packages/demo
    names+=(warren-cuda)
fi
printf '== uninstalling\n'
apt purge "${names[@]}"
list_files >"$folder/after"
diff "$folder/before" "$folder/after" || die "the packages left something behind, or took something"
printf 'installed, tried and removed %d packages; nothing is left\n' "${#names[@]}"
