#!/usr/bin/env bash
# Builds the Python package with maturin, installs it into an environment of its own, and runs what checks it: rustfmt,
# clippy, ruff, mypy, pytest. Everything goes to TARGET (by default cargo's target folder). Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")"

requirements=(maturin==1.16.0 ruff==0.14.4 mypy==2.4.1 pytest==9.2.0 numpy)
tools=venv
# shellcheck source=python/environment.sh
source environment.sh

prepare
say 'rustfmt, clippy'
cargo fmt --check
CARGO_TARGET_DIR=$target PYO3_PYTHON=$tools/bin/python cargo clippy --quiet --release --locked --all-targets -- -D warnings
say 'ruff, mypy'
"$tools/bin/ruff" check --quiet .
"$tools/bin/ruff" format --quiet --check .
"$tools/bin/mypy" --no-error-summary --cache-dir "$target/mypy" --python-executable "$tools/bin/python"
install_package
say 'pytest'
# From the tests' folder, so that the package is the installed one.
cd tests
"$tools/bin/python" -m pytest --rootdir=.. --config-file=../pyproject.toml -q -p no:cacheprovider "${@:-.}"
