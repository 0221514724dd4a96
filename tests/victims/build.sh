#!/usr/bin/env bash
# Builds the programs of manifest.toml, each in all its flavours, into a directory:
#
#     build.sh OUTDIR
#
# Leaves alone what is up to date. A missing compiler is an error, except musl-gcc: without it the
# script leaves out the musl flavours, and says so.
# The command line of a victim is expanded by the shell that builds it.
# shellcheck disable=SC2016
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# The command that builds a program in a flavour, without the output and the source.
command_for() { # name language flavour flags...
    local name=$1 language=$2 flavour=$3
    shift 3
    local common=(-O1 -g -Wall -Wextra "-DVICTIM=\"$name\"")
    case $language-$flavour in
    c-dynamic) echo gcc -std=gnu17 -fPIE -pie "${common[@]}" "$@" ;;
    c-static) echo gcc -std=gnu17 -static -no-pie -fno-pie "${common[@]}" "$@" ;;
    c-nopie) echo gcc -std=gnu17 -fno-pie -no-pie "${common[@]}" "$@" ;;
    c-stripped) echo gcc -std=gnu17 -fPIE -pie -s "${common[@]}" "$@" ;;
    c-musl) echo musl-gcc -std=gnu17 -fPIE -pie "${common[@]}" "$@" ;;
    c-musl-static) echo musl-gcc -std=gnu17 -static "${common[@]}" "$@" ;;
    c-bare) echo gcc -std=gnu17 -static -no-pie -fno-pie -nostdlib -fno-stack-protector "${common[@]}" "$@" ;;
    c-shared) echo gcc -std=gnu17 -shared -fPIC "${common[@]}" "$@" ;;
    cc-dynamic) echo g++ -std=gnu++17 -fPIE -pie "${common[@]}" "$@" ;;
    cc-static) echo g++ -std=gnu++17 -static "${common[@]}" "$@" ;;
    cc-nopie) echo g++ -std=gnu++17 -fno-pie -no-pie "${common[@]}" "$@" ;;
    go-dynamic) echo go build -trimpath "$@" ;;
    go-stripped) echo go build -trimpath -ldflags=-s "$@" ;;
    rs-dynamic) echo rustc --edition 2024 -O -g "$@" ;;
    rs-static) echo rustc --edition 2024 -O -g -C target-feature=+crt-static "$@" ;;
    rs-nopie) echo rustc --edition 2024 -O -g -C relocation-model=static "$@" ;;
    rs-stripped) echo rustc --edition 2024 -O -C strip=symbols "$@" ;;
    *)
        echo "build.sh: no way to build $name: $language in flavour $flavour" >&2
        return 1
        ;;
    esac
}

# Builds one output, unless it is newer than all that it is made of and the command is the same.
build_one() { # outdir output source command...
    local out=$1/$2 stamp=$1/.commands/$2 source=$here/$3 line
    shift 3
    line="$*"
    if [[ $out -nt $source && $out -nt $here/victim.h && $out -nt $here/maps.h && -f $stamp ]] &&
        [[ $(<"$stamp") == "$line" ]]; then
        return
    fi
    # In a directory of its own: rustc puts files beside its output that flavours would share.
    local part=$stamp.part
    rm -rf "$part"
    mkdir "$part"
    # Libraries follow the source; the command's words hold no blanks.
    case $1 in
    go) GO111MODULE=off GOFLAGS=-buildvcs=false "$@" -o "$part/out" "$source" ;;
    rustc) "$@" -o "$part/out" "$source" ;;
    *)
        # Libraries are named after what needs them.
        local libraries=()
        for flag in "$@"; do
            if [[ $flag == -l* ]]; then libraries+=("$flag"); fi
        done
        "$@" -o "$part/out" "$source" "${libraries[@]}"
        ;;
    esac || {
        echo "build.sh: cannot build $out: $line" >&2
        exit 255 # stops xargs
    }
    mv "$part/out" "$out"
    rm -rf "$part"
    echo "$line" >"$stamp"
}

if [[ ${1-} == --one ]]; then
    shift
    build_one "$@"
    exit
fi

[[ $# == 1 ]] || { echo "usage: build.sh OUTDIR" >&2; exit 2; }
mkdir -p "$1/.commands"
outdir=$(cd "$1" && pwd)
for compiler in gcc g++ go rustc; do
    command -v "$compiler" >/dev/null || {
        echo "build.sh: $compiler is not installed; the victims need gcc, g++, go and rustc" >&2
        exit 1
    }
done
musl=yes
command -v musl-gcc >/dev/null || {
    musl=no
    echo "build.sh: musl-gcc is not installed (package musl-tools): no musl flavours" >&2
}

awk -v kind=program -v keys="name source flags flavours" -f "$here/manifest.awk" "$here/manifest.toml" |
    while IFS=$'\037' read -r name source flags flavours; do
        mapfile -d $'\036' -t flag_list < <(printf %s "$flags")
        mapfile -d $'\036' -t flavour_list < <(printf %s "${flavours:-dynamic}")
        for flavour in "${flavour_list[@]}"; do
            [[ $flavour == musl* && $musl == no ]] && continue
            output=$name
            [[ $flavour == dynamic || $flavour == shared ]] || output=$name.$flavour
            line=$(command_for "$name" "${source##*.}" "$flavour" "${flag_list[@]}")
            printf '%s\0' "$outdir $output $source $line"
        done
    done |
    xargs -0 -P "$(nproc)" -I '{}' bash -c 'set -f; exec "$0" --one $1' "$here/build.sh" '{}'
