#!/usr/bin/env bash
# Lays out the folder that the servers of the tests serve: the scripts as they are, and the programs of src/ built from C.
#
#     build.sh OUTDIR
#
# The scripts go to OUTDIR/scripts, those that misbehave to OUTDIR/abuse.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -eq 1 ] || { echo 'usage: build.sh OUTDIR' >&2; exit 2; }
out=$(mkdir -p "$1" && cd "$1" && pwd)

cp -R "$here/scripts" "$here/abuse" "$out/"

# Builds a program of src/ into one of the two folders.
build() { # folder name flags...
    local folder=$1 name=$2
    shift 2
    gcc -std=gnu17 -O1 -Wall -Wextra -Werror "$@" -o "$out/$folder/$name.cgi" "$here/src/$name.c"
}

build scripts echo
build scripts binary -static
build scripts memory
for name in endless crashes; do
    build abuse "$name"
done
# A script that everybody may read and nobody may run, and one that is a link to the outside.
printf '#!/bin/sh\necho\n' >"$out/scripts/closed.sh"
chmod 644 "$out/scripts/closed.sh"
printf '#!/bin/sh\nprintf "Content-Type: text/plain\\n\\noutside\\n"\n' >"$out/outside.sh"
chmod 755 "$out/outside.sh"
ln -sf ../outside.sh "$out/scripts/link.sh"
