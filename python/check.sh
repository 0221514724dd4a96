#!/usr/bin/env bash
# Builds the Python package with maturin, installs it into an environment of its own, and runs what checks it: rustfmt,
# clippy, ruff, mypy, pytest. Everything goes to TARGET (by default cargo's target folder). Arguments go to pytest. `check.sh build` does
# all but run pytest, and `check.sh tests …` runs pytest alone after that.
#
# PROFILE names the profile of the extension module: by default `checked`, which has all assertions on.
#
# RAY, if set, has the tests of Ray run too.
#
# PYTHONS names further interpreters to try the same wheel with; `all` are the oldest that the package is for and the newest, of
# pyenv's, where there are such.
set -euo pipefail
cd "$(dirname "$0")"

requirements=(maturin==1.16.0 ruff==0.14.4 mypy==2.4.1 pytest==9.2.0 pytest-timeout==2.4.0 numpy
    pandas==3.1.1 cloudpickle==3.1.3 joblib==1.6.0 loky==3.7.0 psutil==7.2.2 scikit-learn==1.9.1)
# A notebook, which has a bar, and what executes its cells.
requirements+=(ipykernel==7.4.0 ipywidgets==8.1.9 nbclient==0.11.0)
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

# Checks the sources, and installs the package.
build() {
    say 'rustfmt, clippy'
    cargo fmt --check
    CARGO_TARGET_DIR=$cargo_target PYO3_PYTHON=$tools/bin/python \
        cargo clippy --quiet --profile checked --locked --all-targets -- -D warnings
    say 'ruff, mypy'
    "$tools/bin/ruff" check --quiet .
    "$tools/bin/ruff" format --quiet --check .
    "$tools/bin/mypy" --no-error-summary --cache-dir "$target/mypy" --python-executable "$tools/bin/python"
    install_package
}

prepare
fetch_loky
# The command that shows pools: where it was built, as it is for the tests of the workspace, what it shows is tested.
export REGROW=${REGROW:-$cargo_target/checked/regrow}
case ${1:-} in
    build)
        build
        exit 0
        ;;
    tests) shift ;;
    *) build ;;
esac
say 'pytest'
# From the tests' folder, so that the package is the installed one.
cd tests
"$tools/bin/python" -m pytest --rootdir=.. --config-file=../pyproject.toml -q -p no:cacheprovider "${@:-.}"

# Has the tests of calls and of runs be run by another interpreter, in an environment of its own.
try_with() {
    local environment
    environment=$target/with-$("$1" -c 'import sys; print(sys.version.split()[0])')
    say "pytest with $1"
    rm -rf "$environment"
    "$1" -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check pytest "$target"/wheels/*.whl
    "$environment/bin/python" -m pytest --rootdir=.. --config-file=../pyproject.toml -q -p no:cacheprovider \
        test_core.py test_executor.py test_run.py
}

# The oldest and the newest of pyenv's interpreters that the package is for.
others() {
    find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -path '*/versions/3.*/bin/python' 2>/dev/null |
        grep -E '/3\.(9|1[0-9])\.' | sort -V | sed -n '1p;$p'
}

# Part of the tests alone was asked for.
[ $# -eq 0 ] || exit 0
[ "${PYTHONS:-}" != all ] || PYTHONS=$(others)
read -r -d '' -a pythons < <(printf '%s\0' "${PYTHONS:-}")
for one in "${pythons[@]}"; do
    try_with "$one"
done
