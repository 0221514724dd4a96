#!/usr/bin/env bash
# Builds the wheel that users install, without what tests it: `wheel.sh FOLDER`. It needs a Rust toolchain, Python and binutils here, and
# none of them where it is installed but Python.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")"

requirements=()
tools=wheel-venv
# shellcheck source=python/environment.sh
source environment.sh

prepare
build_wheel "$folder"
