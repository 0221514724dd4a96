#!/usr/bin/env bash
# Builds the Python package with maturin, installs it into an environment of its own, and runs what checks it: rustfmt,
# clippy, ruff, mypy, pytest. Everything goes to TARGET (by default cargo's target folder). Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")"

target=${TARGET:-${CARGO_TARGET_DIR:-$PWD/../target}}
target=$(mkdir -p "$target/python" && cd "$target/python" && pwd)
# The first python3 of PATH may be no more than a launcher of another one.
python=${PYTHON:-/usr/bin/python3}
tools=$target/venv
requirements=(maturin==1.16.0 ruff==0.14.4 mypy==2.4.1 pytest==9.2.0 numpy)

# Prints what comes next.
say() {
    printf 'python: %s\n' "$1"
}

# Makes the environment, unless there is one of these requirements already.
prepare() {
    local wanted="$python ${requirements[*]}"
    if [ "$(cat "$tools/wanted" 2>/dev/null)" != "$wanted" ]; then
        say 'environment'
        rm -rf "$tools"
        "$python" -m venv "$tools"
        "$tools/bin/pip" install --quiet --disable-pip-version-check "${requirements[@]}"
        printf '%s\n' "$wanted" >"$tools/wanted"
    fi
}

# Builds a wheel and installs it.
install_package() {
    say 'build'
    rm -rf "$target/wheels"
    if ! CARGO_TARGET_DIR=$target "$tools/bin/maturin" build --release --locked \
        --interpreter "$tools/bin/python" --out "$target/wheels" >"$target/build.log" 2>&1; then
        cat "$target/build.log"
        return 1
    fi
    "$tools/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$target"/wheels/*.whl
}

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
