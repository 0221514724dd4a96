#!/usr/bin/env bash
# Measures builds and shell tests under `regrow env` beside the same without: `bench.sh OUTPUT`. The figures go to the JSON file OUTPUT.
# `make build` builds the command before. The sources of zlib and jemalloc come from the crates libz-sys (the last that has a configure) and
# tikv-jemalloc-sys.
set -euo pipefail
output=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
sources=$target/bench-env/sources

if ! command -v autoconf >/dev/null; then
    echo "bench-env: autoconf is missing: apt-get install autoconf" >&2
    exit 2
fi
if [ ! -d "$sources/vendor" ]; then
    mkdir -p "$sources/src"
    : >"$sources/src/lib.rs"
    cat >"$sources/Cargo.toml" <<end
[package]
name = "sources"
version = "0.0.0"
edition = "2021"
[workspace]
[dependencies]
libz-sys = "=1.1.8"
tikv-jemalloc-sys = "=0.6.1"
end
    (cd "$sources" && cargo vendor --quiet vendor >/dev/null)
    (cd "$sources/vendor/tikv-jemalloc-sys/jemalloc" && autoconf)
fi
PYTHONPATH=$here/.. /usr/bin/python3 "$here/below_env.py" "$target/release/regrow" "$sources/vendor" "$output"
