#!/usr/bin/env bash
# Builds the BPF object: `build.sh [FILE]`, without a file the one that is kept beside its source.
#
# It is kept, so that no compiler for BPF is needed where Regrow is built; a test compares it with what the source gives. The bytes depend on
# the compiler's version: clang 14, as Debian 12 has it, with the headers of libbpf 1.1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=$(realpath "${1:-$here/machine.bpf.o}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$here"
clang-14 -O2 -g -target bpf -mcpu=v3 -Wall -Werror "-ffile-prefix-map=$here=." -c machine.bpf.c -o "$work/object"
# Its types stay, what is for debuggers goes.
llvm-strip-14 --strip-debug "$work/object"
install -m 644 "$work/object" "$to"
