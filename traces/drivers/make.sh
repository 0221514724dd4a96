#!/usr/bin/env bash
# `./configure` and `make` of a real source package, zlib of Debian: what `traces/make-1000.csv` is recorded from.
#
# The source is fetched before the recording: `make.sh fetch FOLDER`, then record `make.sh build FOLDER`. The build is done
# as a distributor does it, once with the shared library and its tests, then statically, from a clean tree.
set -euo pipefail
folder=$2

case $1 in
fetch)
    mkdir -p "$folder"
    cd "$folder"
    apt-get -qq source --download-only zlib
    dpkg-source --extract zlib_*.dsc source >/dev/null
    ;;
build)
    cd "$folder/source"
    for options in "" --static; do
        # shellcheck disable=SC2086 # No option is no word.
        ./configure $options >/dev/null
        make -s -j2 >/dev/null
        make -s check >/dev/null
        make -s distclean >/dev/null
    done
    ;;
*)
    echo "usage: make.sh fetch|build FOLDER" >&2
    exit 2
    ;;
esac
