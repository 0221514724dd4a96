#!/usr/bin/env bash
# `./configure` and `make` of a real source package, zlib of Debian: what `traces/make-1000.csv` is recorded from.
#
# The source is fetched before the recording: `make.sh fetch FOLDER`, then record `make.sh build FOLDER`. The build is done
# from a clean tree four times: as Debian does it, and with other options.
set -euo pipefail
folder=$2

case $1 in
fetch)
    mkdir -p "$folder/apt" "$folder/lists/partial"
    cd "$folder"
    # The machine's own sources, asked for source packages, without changing its settings.
    sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >apt/debian.sources
    apt=(apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$PWD/apt" -o "Dir::State::lists=$PWD/lists")
    "${apt[@]}" update
    "${apt[@]}" source --download-only zlib
    dpkg-source --extract zlib_*.dsc source >/dev/null
    ;;
build)
    cd "$folder/source"
    for options in "" --static --zprefix --const; do
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
