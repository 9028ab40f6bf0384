#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main use case on real files: a volume is made, mounted, filled with a tree of at least 20,000
# files, verified by hashes, worked in, and a whole copy of the tree is deleted with one command;
# the same files on ext4 for comparison. Then the volume is unmounted, checked, mounted again and
# every byte is compared once more.
#
# Where mounting is impossible the same is done on IMAGE:/path; where ext4 is impossible, rm -rf
# runs on the file system of the temporary folder. The output says so. Nothing is left behind.
set -euo pipefail
export LC_ALL=C

warren=${WARREN:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/bin/warren}
files_wanted=25000
files_least=20000
size_most_mib=1500
jobs=$(nproc)
tree=
keep=

usage() {
    cat <<TEXT
usage: ./dev demo [--tree DIRECTORY] [--engine ENGINE] [--keep]

  --tree DIRECTORY  the files to work on (default: parts of /usr/include, /usr/share and /usr/lib,
                    at least $files_least files, at most $size_most_mib MiB)
  --engine ENGINE   auto, cpu or cuda (default: \$WARREN_ENGINE, auto)
  --keep            leave the image behind and say where it is

Environment: WARREN is the program, TMPDIR where images are made.
TEXT
}

die() {
    printf 'demo: %s\n' "$*" >&2
    exit 1
}

while [[ $# -gt 0 ]]; do
    case $1 in
        --tree)
            [[ $# -ge 2 && -d $2 ]] || die "--tree needs a directory"
            tree=$(cd "$2" && pwd)
            shift
            ;;
        --engine)
            [[ $# -ge 2 ]] || die "--engine needs a name: auto, cpu or cuda"
            export WARREN_ENGINE=$2
            shift
            ;;
        --keep) keep=1 ;;
        -h | --help) usage && exit 0 ;;
        *) usage >&2 && exit 2 ;;
    esac
    shift
done
[[ -x $warren ]] || die "there is no program $warren: run ./dev build, or set WARREN"

# Time and progress.

started=$EPOCHREALTIME
rows=()

# Seconds since a moment taken from EPOCHREALTIME.
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }'; }

say() { printf '%7.1f s  %s\n' "$(since "$started")" "$*"; }

# Runs a command and records its time for the table: step NAME DETAIL COMMAND...
step() {
    local name=$1 detail=$2 begun
    shift 2
    say "$name: $detail"
    begun=$EPOCHREALTIME
    "$@" || die "$name failed"
    last_seconds=$(since "$begun")
    rows+=("$name|$last_seconds s|$detail")
}

# The temporary folder, and the cleanup at the end.

work=$(mktemp -d "${TMPDIR:-/tmp}/warren-demo.XXXXXX")
image=$work/v.img
mounted=$work/mnt
beside=$work/beside

clean_up() {
    local code=$?
    trap - EXIT
    cd /
    if mountpoint -q "$mounted" 2>/dev/null; then
        "$warren" umount "$mounted" 2>/dev/null || umount -l "$mounted" 2>/dev/null || true
    fi
    if mountpoint -q "$beside" 2>/dev/null; then
        umount "$beside" 2>/dev/null || umount -l "$beside" 2>/dev/null || true
    fi
    if [[ -n $keep && -f $image ]]; then
        rm -rf "$work/stage" "$work/out" "$beside" "$work/ext4.img"
        say "the volume is left in $image"
    else
        rm -rf "$work"
    fi
    exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The source: whole directories of /usr, copied first so that they cannot change meanwhile.

# One line for each directory with files: mean bytes per file, files, MiB, directory.
candidates() {
    find /usr/include /usr/share /usr/lib -xdev -mindepth 2 -type f -readable \
        -printf '%H/%P\t%s\n' | awk -F '\t' '
        { split($1, part, "/"); top = "/usr/" part[3] "/" part[4]; files[top]++; bytes[top] += $2 }
        END {
            for (top in files)
                printf "%d\t%d\t%d\t%s\n", bytes[top] / files[top], files[top],
                    bytes[top] / 1048576 + files[top] / 512, top
        }'
}

# Directories of many small files until there are enough, and one of large files beside them.
choose_source() {
    local files=0 size=0 each more_files more_size directory large=
    candidates | sort -n >"$work/candidates"
    : >"$work/chosen"
    while IFS=$'\t' read -r each more_files more_size directory; do
        [[ $more_files -ge 20 && -d $directory ]] || continue
        [[ $((size + more_size)) -le $size_most_mib && $files -lt $files_wanted ]] || continue
        printf '%s\0' "$directory" >>"$work/chosen"
        files=$((files + more_files))
        size=$((size + more_size))
    done <"$work/candidates"
    while IFS=$'\t' read -r each more_files more_size directory; do
        [[ $each -gt 100000 && $more_size -ge 32 && $more_size -le 256 ]] || continue
        large=$directory
    done <"$work/candidates"
    [[ -z $large ]] || printf '%s\0' "$large" >>"$work/chosen"
    mkdir "$work/stage"
    xargs -0 -r -a "$work/chosen" cp -a --parents -t "$work/stage" 2>"$work/complaints" || true
    tree=$work/stage
    # A small system: copies of the same files until there are enough.
    local copy=0 have
    have=$(find "$tree" -type f | wc -l)
    [[ $have -gt 0 ]] || die "no files could be copied from /usr: $(head -1 "$work/complaints")"
    while [[ $((have * (copy + 1))) -lt $files_least ]]; do
        copy=$((copy + 1))
        cp -a "$tree/usr" "$tree/again$copy"
    done
}

# Every file's hash, one line each, in the order of the names.
hashes_of() {
    (cd "$1" && find . -type f -print0 | xargs -0 -r -P "$jobs" -n 256 sha256sum) |
        sort -k 2 >"$2"
}

# All other properties that a copy must preserve.
facts_of() {
    local owner='%U %G'
    [[ $(id -u) == 0 ]] || owner=
    (cd "$1" && find . -not -type d -printf "%y %m $owner %s %T@ %l %p\n" -o \
        -printf "%y %m $owner - %T@ - %p\n") | sort >"$2"
}

same() {
    cmp -s "$1" "$2" && return 0
    diff "$1" "$2" | head -5 >&2
    return 1
}

# Compares a tree with the source; the names in the second are those of the first.
verify() {
    hashes_of "$1" "$work/found.hashes"
    same "$work/source.hashes" "$work/found.hashes" || return 1
    facts_of "$1" "$work/found.facts"
    same "$work/source.facts" "$work/found.facts"
}

verify_in_image() {
    rm -rf "$work/out"
    mkdir "$work/out"
    "$warren" cp -a "$image:$1/." "$work/out" && verify "$work/out"
}

# The capabilities of the machine.

mount_volume() {
    mkdir -p "$mounted"
    "$warren" mount "$image" "$mounted"
}

can_mount() {
    [[ -r /dev/fuse && -w /dev/fuse ]] || return 1
    mount_volume 2>"$work/complaints" && return 0
    # A missing engine is an error here, not a reason to go on without a mount.
    "$warren" info "$image" >/dev/null || die "the volume cannot be opened"
    return 1
}

# The engine that runs the operations, as the mount or the image reports.
engine_of() { "$warren" info "$1" | sed -n 's/^Engine: *//p'; }

make_ext4() {
    mkdir -p "$beside"
    [[ $(id -u) == 0 ]] || return 1
    truncate -s "$1" "$work/ext4.img"
    mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$work/ext4.img" 2>/dev/null &&
        mount -o loop "$work/ext4.img" "$beside" 2>/dev/null
}

# The work inside the volume; $root is the tree, as a path or IMAGE:/path.

copy_in() {
    if [[ -n $fuse ]]; then
        mkdir "$root/$1" && cp -a "$tree/." "$root/$1"
    else
        "$warren" mkdir "$root/$1" && "$warren" cp -a "$tree/." "$root/$1"
    fi
}

check_tree() {
    if [[ -n $fuse ]]; then verify "$root/$1"; else verify_in_image "/$1"; fi
}

link_and_move() {
    local index=0 name paths=()
    "$warren" mkdir "$root/links" "$root/moved"
    while IFS= read -r -d '' name && [[ $index -lt 1000 ]]; do
        paths+=("$root/src/$name")
        index=$((index + 1))
    done < <(cd "$tree" && find . -type f -links 1 -printf '%P\0' | sort -z)
    # A thousand hard links, some of them by plain ln(1) where there is a mount.
    for ((index = 0; index < ${#paths[@]}; index++)); do
        link_paths+=("$root/links/$index")
    done
    if [[ -n $fuse ]]; then
        for ((index = 0; index < ${#paths[@]}; index++)); do
            printf '%s\0%s\0' "${paths[index]}" "${link_paths[index]}"
        done | xargs -0 -n 2 -P "$jobs" ln
    else
        for ((index = 0; index < 20 && index < ${#paths[@]}; index++)); do
            "$warren" ln "${paths[index]}" "${link_paths[index]}"
        done
        link_paths=("${link_paths[@]:0:20}")
    fi
    # All of them into another directory as one command, and the tree to another name.
    "$warren" mv -t "$root/moved" "${link_paths[@]}"
    "$warren" mv "$root/src" "$root/kept"
    "$warren" find "$root/moved" -type f -links 2 -printf '%f\n' | sort >"$work/moved.names"
    [[ $(wc -l <"$work/moved.names") == "${#link_paths[@]}" ]] || return 1
    [[ $("$warren" ls "$root/links" | wc -l) == 0 ]]
}

unmount_volume() { "$warren" umount "$mounted"; }

# The main use case starts here.

if [[ -z $tree ]]; then
    step "choose" "a tree of real files from /usr" choose_source
fi
files=$(find "$tree" -type f | wc -l)
entries=$(find "$tree" | wc -l)
mib=$(du -sm "$tree" | cut -f1)
what="$files files, $entries names, $mib MiB"
room=$((mib * 2 + entries * 2 * 2 / 1024 + 512))

step "hash" "the source: $what" hashes_of "$tree" "$work/source.hashes"
facts_of "$tree" "$work/source.facts"
step "mkfs" "a volume of $room MiB in a file" "$warren" mkfs -q "$image" --size "${room}M"

fuse=1
root=$mounted
if ! can_mount; then
    fuse=
    root=$image:
    say "nothing can be mounted here ($(head -1 "$work/complaints" 2>/dev/null || true))"
    say "so all is done on IMAGE:/path, without a mount ('warren doctor' says what is missing)"
else
    rows+=("mount|-|$mounted, engine $(engine_of "$mounted")")
fi

step "copy" "the tree into the volume (cp -a)" copy_in src
step "verify" "hashes, modes, owners, times of all of it" check_tree src
link_paths=()
step "links, moves" "1,000 hard links, moved by one 'warren mv', and the tree renamed" link_and_move
step "copy" "the tree once more, to be deleted" copy_in doomed

peer="rm -rf on ext4"
if ! make_ext4 "$((mib * 2 + 512))M"; then
    peer="rm -rf on $(stat -f -c %T "$work")"
    say "no ext4 can be mounted here (it needs root and a loop device), so: $peer"
fi
copy_beside() { mkdir "$beside/doomed" && cp -a "$tree/." "$beside/doomed"; }
step "copy" "the same files beside it, for $peer" copy_beside

sync_all() { if [[ -n $fuse ]]; then "$warren" sync "$mounted"; fi && sync -f "$beside"; }
step "sync" "both, before anything is deleted" sync_all

step "delete" "warren rm -r of $files files" "$warren" rm -r "$root/doomed"
ours=$last_seconds
if [[ -n $fuse ]]; then
    step "  durable" "warren sync after it" "$warren" sync "$mounted"
fi
step "delete" "$peer, the same files" rm -rf "$beside/doomed"
theirs=$last_seconds
step "  durable" "sync after it" sync -f "$beside"

if [[ -n $fuse ]]; then
    step "unmount" "and wait until all is written" unmount_volume
fi
step "fsck" "the volume" "$warren" fsck "$image"
if [[ -n $fuse ]]; then
    step "mount" "again" mount_volume
fi
step "verify" "every byte once more" check_tree kept
check_moved() { [[ $("$warren" ls "$root/moved" | wc -l) == "${#link_paths[@]}" ]]; }
step "verify" "the moved links" check_moved
if [[ -n $fuse ]]; then
    step "unmount" "for good" unmount_volume
    step "fsck" "the volume" "$warren" fsck "$image"
fi

printf '\n%-14s %12s  %s\n' "step" "time" "what"
printf -- '%.0s-' {1..78}
printf '\n'
for row in "${rows[@]}"; do
    IFS='|' read -r name seconds detail <<<"$row"
    printf '%-14s %12s  %s\n' "$name" "$seconds" "$detail"
done
printf -- '%.0s-' {1..78}
awk -v ours="$ours" -v theirs="$theirs" -v files="$files" -v peer="$peer" 'BEGIN {
    printf "\n%d files deleted: warren rm -r %.3f s, %s %.3f s: %.1f times as fast\n",
        files, ours, peer, theirs, theirs / (ours > 0 ? ours : 0.001)
}'
say "all hashes equal, the volume is clean"
