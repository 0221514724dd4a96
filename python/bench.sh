#!/usr/bin/env bash
# Measures the Python package beside what people use for the same, in an environment of its own: `bench.sh OUTPUT`, where OUTPUT
# is the JSON file that the figures go to. The command is built before (`make build`).
set -euo pipefail
output=$(realpath "$1")
cd "$(dirname "$0")"

requirements=(maturin==1.16.0 pytest==8.4.2 pytest-forked==1.7.5 numpy pandas)
tools=bench-venv
# shellcheck source=python/environment.sh
source environment.sh

prepare
# For orientation alone: their rows are left out where they do not install.
for one in gunicorn==23.0.0 ray==2.51.1; do
    "$tools/bin/pip" install --quiet --disable-pip-version-check "$one" || say "$one does not install"
done
install_package
"$tools/bin/python" bench/fresh_processes.py "$(dirname "$target")/release/regrow" "$output"
