#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into an environment of its own, and runs what checks it: rustfmt, clippy, ruff,
# mypy, pytest, and pytest again in clean environments of other interpreters. Everything goes to TARGET (by default cargo's target
# folder). Arguments go to pytest. `check.sh build` stops before pytest, `check.sh tests …` runs pytest alone after that, and
# `check.sh clean` the clean environments. No test has a Rust toolchain.
#
# PROFILE names the profile of the extension module: by default `checked`, which has all assertions on.
#
# RAY, if set, has the tests of Ray run too, and REGROW_LONG all tests of the other interpreters.
set -euo pipefail
cd "$(dirname "$0")"

requirements=(ruff==0.14.4 mypy==2.4.1 pytest==9.2.0 pytest-timeout==2.4.0 numpy
    pandas==3.1.1 hypothesis==6.170.17 cloudpickle==3.1.3 joblib==1.6.0 loky==3.7.0 psutil==7.2.2 scikit-learn==1.9.1)
# What `-n` belongs to elsewhere; a notebook, which has a bar, and what executes its cells.
requirements+=(pytest-xdist==3.8.0 ipykernel==7.4.0 ipywidgets==8.1.9 nbclient==0.11.0)
# The clusters that tasks come from. Ray is large, and is tried only where RAY is set.
requirements+=(celery==5.7.0 redis==8.1.0 dask==2026.8.0 distributed==2026.8.0)
[ -z "${RAY:-}" ] || requirements+=(ray==2.51.1)
tools=venv
PROFILE=${PROFILE:-checked}
# shellcheck source=python/environment.sh
source environment.sh

# Fetches loky's own tests, which are in its source archive alone.
fetch_loky() {
    export REGROW_LOKY=$target/loky-3.7.0
    [ ! -d "$REGROW_LOKY" ] || return 0
    "$tools/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$target" loky==3.7.0
    tar -C "$target" -xf "$REGROW_LOKY.tar.gz"
}

# Has clippy compile the extension, as `cargo clippy` does it: what it depends on is built once then, and not checked for that beside.
# What users get is compiled without.
by_clippy() {
    local driver
    driver=$(rustc --print sysroot)/bin/clippy-driver
    [ -x "$driver" ] || { echo "check.sh: there is no $driver: rustup component add clippy" >&2; exit 1; }
    CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ RUSTC_WORKSPACE_WRAPPER=$driver "$@"
}

# Checks the sources, and installs the package.
build() {
    say 'rustfmt, ruff, mypy'
    cargo fmt --check
    "$tools/bin/ruff" check --quiet .
    "$tools/bin/ruff" format --quiet --check .
    "$tools/bin/mypy" --no-error-summary --cache-dir "$target/mypy" --python-executable "$tools/bin/python"
    if [ "$profile" = checked ]; then
        say 'clippy'
        by_clippy install_package
    else
        install_package
    fi
}

# Has whoever runs from here on find programs in place of cargo, rustc and maturin that note that they were asked for, and fail.
without_rust() {
    local name
    no_rust=$(mktemp -d)
    trap 'rm -rf "$no_rust"' EXIT
    for name in cargo rustc maturin zig; do
        # shellcheck disable=SC2016 # The program itself replaces these.
        printf '#!/bin/sh\necho "$0 $*" >>"${0%%/*}/asked"\nexit 1\n' >"$no_rust/$name"
        chmod 755 "$no_rust/$name"
    done
    PATH=$no_rust:$PATH
}

# Stops if anybody asked for Rust meanwhile. pip asks which one there is, to tell the registry.
nobody_asked() {
    [ ! -e "$no_rust/asked" ] || ! grep -v '/rustc --version$' "$no_rust/asked"
}

# Runs pytest in an environment, over the installed package.
run_tests() {
    local environment=$1
    shift
    # From the tests' folder, so that the package is the installed one.
    (cd tests && "$environment/bin/python" -m pytest --rootdir=.. --config-file=../pyproject.toml -q --durations=8 -p no:cacheprovider "$@")
}

# Installs the wheel into a clean environment of an interpreter, and runs tests there: `try_with INTERPRETER PACKAGES TEST…`.
try_with() {
    local interpreter=$1 packages=$2 environment
    shift 2
    environment=$target/with-$("$interpreter" -c 'import sys; print(sys.version.split()[0])')
    say "clean environment of $interpreter"
    rm -rf "$environment"
    "$interpreter" -m venv "$environment"
    # shellcheck disable=SC2086 # One word for each.
    "$environment/bin/pip" install --quiet --disable-pip-version-check pytest pytest-timeout $packages
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$target"/wheels/*.whl
    run_tests "$environment" "$@"
    nobody_asked
}

# Tries the wheel in clean environments: of this interpreter, and of the oldest and the newest others, where there are such. The
# newest one's own tests, numpy's and pandas' end in recycled processes as outside. With those others the tests that make most calls
# are left out, as they are no others for another interpreter. With REGROW_LONG the newest is Debian's newest.
try_clean() {
    local others at tests packages
    [ -z "${REGROW_LONG:-}" ] || find_newest_cpython
    without_rust
    # With this one `check.sh tests` runs all the others.
    try_with "$python" '' test_core.py test_wheel.py
    mapfile -t others < <(./interpreters.py --others)
    for at in "${!others[@]}"; do
        tests=(test_core.py test_executor.py test_run.py)
        [ -n "${REGROW_LONG:-}" ] || tests+=(-k 'not a_thousand_calls and not no_memory_serves_two')
        packages=
        if [ "$((at + 1))" -eq "${#others[@]}" ]; then
            tests+=(test_own_tests.py)
            packages='numpy pandas==3.1.1 hypothesis'
        fi
        try_with "${others[$at]}" "$packages" "${tests[@]}"
    done
    say "the wheel was tried with ${#others[@]} interpreters beside $python: ${others[*]:-none was found}"
}

prepare
# One test needs them, which `make test` leaves to `make soak`.
if [ $# -eq 0 ] || [[ " $* " == *' test_loky.py '* ]]; then
    fetch_loky
fi
# Celery's own tests take long: they run only where their file is named. This is where they are kept.
[[ " $* " != *' test_celery_own_tests.py '* ]] || export REGROW_CELERY=$target/celery
# The command that shows pools: where it was built, as it is for the tests of the workspace, what it shows is tested.
export REGROW=${REGROW:-$cargo_target/checked/regrow}
export REGROW_WHEELS=$target/wheels
case ${1:-} in
    build)
        build
        exit 0
        ;;
    clean)
        try_clean
        exit 0
        ;;
    tests) shift ;;
    *) build ;;
esac
say 'pytest'
without_rust
run_tests "$tools" "${@:-.}"
nobody_asked
rm -rf "$no_rust"

# Part of the tests alone was asked for.
[ $# -eq 0 ] || exit 0
try_clean
