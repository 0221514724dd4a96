#!/usr/bin/env bash
# Builds the attacks, each a program of its own, into a directory:
#
#     build.sh OUTDIR
#
# Leaves alone what is up to date.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

build_one() { # outdir source
    local out
    out=$1/$(basename "$2" .c)
    [[ $out -nt $2 && $out -nt $here/hostile.h && $out -nt $here/probe.h && $out -nt $0 ]] && return
    gcc -std=gnu17 -O1 -g -Wall -Wextra -fPIE -pie -pthread -I "$here" -o "$out.part" "$2" || {
        echo "build.sh: cannot build $out" >&2
        exit 255 # stops xargs
    }
    mv "$out.part" "$out"
}

if [[ ${1-} == --one ]]; then
    build_one "$2" "$3"
    exit
fi

[[ $# == 1 ]] || { echo "usage: build.sh OUTDIR" >&2; exit 2; }
mkdir -p "$1"
outdir=$(cd "$1" && pwd)
printf '%s\0' "$here"/attacks/*.c | xargs -0 -P "$(nproc)" -I '{}' "$0" --one "$outdir" '{}'
