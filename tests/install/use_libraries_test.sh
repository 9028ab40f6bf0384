#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installed libraries serve programs outside of the tree: each one from C and from C++, shared
# and as an archive, found by pkg-config (the C libraries each installed alone) and by CMake. C++
# interfaces are shared by libwarren.so alone. The shared C libraries export what their header
# declares and nothing else. Licence and notices are installed with all of them.
#
# WARREN_PREFIX names what is tested if it is installed already, as by packages.
set -euo pipefail
export LC_ALL=C

for tool in cmake pkg-config cc c++ nm readelf; do
    command -v "$tool" >/dev/null || { echo "no $tool here"; exit 77; }
done
programs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/programs
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=${WARREN_PREFIX:-}
fail() {
    echo "$*"
    exit 1
}
install_to() {
    cmake --install "$WARREN_BUILD" --prefix "$@" >"$folder/log" || fail "$(<"$folder/log")"
}
if [[ -z $prefix ]]; then
    cache=$WARREN_BUILD/CMakeCache.txt
    grep -q '^WARREN_SANITIZE:STRING=$' "$cache" ||
        { echo "a program would need the sanitizers of the libraries"; exit 77; }
    prefix=$folder/usr
    install_to "$prefix"
    for text in LICENSE NOTICE; do
        cmp "$programs/../../../$text" "$prefix/share/doc/warren/$text" ||
            fail "$text is not installed as it is in the sources"
    done
    nvcc=$(sed -n 's/^CMAKE_CUDA_COMPILER:[A-Z]*=//p' "$cache")
    [[ -z $nvcc ]] || export LIBRARY_PATH=${nvcc%/bin/nvcc}/lib64
fi

pc=$(find "$prefix" -name warren.pc)
[[ -f $pc ]] || fail "no warren.pc below $prefix"
libraries=$(dirname "$(dirname "$pc")")
within=${libraries#"$prefix"/}
mkdir "$folder/tree"
touch "$folder/tree/"{1..4}

window=$(for ((i = 9980; i < 10000; ++i)); do
    printf "\\x$(printf %02x $((i % 251)))"
done | md5sum | cut -d' ' -f1)
abc=$(printf abc | sha256sum | cut -d' ' -f1)
version=$(pkg-config --modversion "$pc")
declare -A expected=(
    # The vector in the middle is that of docs/HASHING.md.
    [hash]="$abc 2b68beb53d4def2872a8515fa7ae711b9a94c6cc $window"
    [chunk]="65536 131072 196608"
    [walk]="5 entries"
    [mount_ring]="refused"
    [volume]="$abc $version"
)

# Runs a program of programs/ and compares what it prints: run NAME HOW PROGRAM
run() {
    local argument=() printed
    [[ $1 == walk ]] && argument=("$folder/tree")
    [[ $1 == volume ]] && argument=("$folder/image")
    printed=$(LD_LIBRARY_PATH=$place/$within "$3" "${argument[@]}" | xargs) ||
        fail "$1, $2: exit code $?"
    [[ $printed == "${expected[$1]}" ]] || fail "$1, $2: '$printed', not '${expected[$1]}'"
    local linked
    linked=$(readelf -d "$3" | grep -c 'NEEDED.*libwarren' || true)
    [[ $2 == *shared* && $linked == 1 || $2 == *archive* && $linked == 0 ]] ||
        fail "$1, $2: it needs $linked shared libraries of Warren"
    echo "$1, $2: $printed"
}

# By pkg-config, with what is installed in $place: link NAME LIBRARY COMPILER...
link() {
    local name=$1 library=$2 flags
    read -ra flags <<<"$(PKG_CONFIG_PATH=$place/$within/pkgconfig \
        pkg-config --cflags --libs "$library")"
    "${@:3}" -o "$folder/program" "${flags[@]}"
    run "$name" "shared by pkg-config with $3" "$folder/program"
    link_archive "$@"
}
link_archive() {
    local name=$1 library=$2 flags
    shift 2
    rm -rf "$folder/archives"
    cp -r "$place" "$folder/archives"
    rm "$folder/archives/$within"/*.so*
    read -ra flags <<<"$(PKG_CONFIG_PATH=$folder/archives/$within/pkgconfig \
        pkg-config --static --cflags --libs "$library")"
    "$@" -o "$folder/program" "${flags[@]}"
    run "$name" "archive by pkg-config with $1" "$folder/program"
}
for name in hash chunk walk mount_ring; do
    place=$prefix
    if [[ -z ${WARREN_PREFIX:-} ]]; then
        place=$folder/$name
        install_to "$place" --component $name
    fi
    link $name warren_$name cc -std=c99 -D_GNU_SOURCE -Wall -Werror "$programs/$name.c"
    link $name warren_$name c++ -std=c++11 -Wall -Werror -x c++ "$programs/$name.c" -x none
    [[ ! -f $programs/$name.cpp ]] ||
        link_archive $name warren_$name c++ -std=c++20 -Wall -Werror "$programs/$name.cpp"
done
place=$prefix
for name in chunk walk mount_ring volume; do
    link $name warren c++ -std=c++20 -Wall -Werror "$programs/$name.cpp"
done

# By CMake.
cmake -S "$programs" -B "$folder/build" -DCMAKE_PREFIX_PATH="$prefix" >"$folder/log" 2>&1 &&
    cmake --build "$folder/build" >"$folder/log" 2>&1 || fail "$(<"$folder/log")"
for program in {hash,chunk,walk,mount_ring}{,_as_cxx} {chunk,walk,mount_ring,volume}_cpp; do
    name=${program%_as_cxx}
    name=${name%_cpp}
    run $name "shared by CMake as $program" "$folder/build/$program"
    run $name "archive by CMake as $program" "$folder/build/${program}_static"
done

# What the libraries export, against the functions that the headers declare.
for name in hash chunk walk mount_ring; do
    library=$libraries/libwarren_$name.so
    readelf -d "$library" | grep -q "SONAME.*\[libwarren_$name\.so\.${version%%.*}\]" ||
        fail "$library: its SONAME is not libwarren_$name.so.${version%%.*}"
    declared=$(cc -E -P "$prefix/include/warren/$name.h" | tr '\n' ' ' |
        grep -oE '\b(warren|storegpu|rabin|compute_rabin)_?[a-z0-9_]*\(' | tr -d '(' | sort -u)
    exported=$(nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | sed 's/@.*//' |
        sort)
    others=$(nm -D --defined-only "$library" | awk '$2 !~ /[TA]/')
    [[ $declared == "$exported" && -z $others ]] ||
        fail "$library exports other than $name.h declares:
$(diff <(echo "$declared") <(echo "$exported"))
$others"
done
readelf -d "$libraries/libwarren.so" | grep -q "SONAME.*\[libwarren\.so\.$version\]" ||
    fail "libwarren.so does not carry its full version in its SONAME"
