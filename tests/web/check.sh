#!/usr/bin/env bash
# Proves `regrow web` against real web servers: the types of the tests, the tests of the module for Python applications, then the
# tests of the gateway. One of the three runs alone by its name, `types` or `application`, or by arguments for pytest, as in
#
#     tests/web/check.sh test_compare.py -k 'warm and not h2c'
#
# The command is what REGROW names (`make test-web` names that of the profile `checked`), or target/release/regrow (`make build`).
# REGROW_LOAD_SECONDS says how long each kind of load lasts, REGROW_WEB_USER who the servers run as when this is root (nobody by
# default), and REGROW_WEB_PICTURES where screenshots go.
set -euo pipefail
cd "$(dirname "$0")"

mypy_version=2.4.1
target=${CARGO_TARGET_DIR:-$PWD/../../target}
tools=${REGROW_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/regrow/tools}/mypy-$mypy_version
# Debian's, with its pytest: the one that the tests are for.
python=${PYTHON:-/usr/bin/python3}
# The part of the gateway that is written in Python.
application=$PWD/../../crates/regrow-web

# Checks the types, with a mypy of its own in the cache.
check_types() {
    if [ ! -x "$tools/bin/mypy" ]; then
        "$python" -m venv "$tools"
        "$tools/bin/pip" install --quiet --disable-pip-version-check "mypy==$mypy_version"
    fi
    "$tools/bin/mypy" --no-error-summary --cache-dir "$target/mypy-web" --python-executable "$python"
    # Each part of the module is checked as a module of its own.
    local parts=$application/src/serve/application
    MYPYPATH=$parts "$tools/bin/mypy" --strict --no-error-summary --cache-dir "$target/mypy-web" --python-executable "$python" "$parts"/*.py
}

# Tests the module by itself.
check_application() {
    CARGO_TARGET_DIR=$target PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider "$application/tests/application"
}

# Tests the gateway, beside the servers that it is compared with.
check_gateway() {
    local program
    for program in "${REGROW:-$target/release/regrow}" /usr/sbin/apache2 /usr/sbin/nginx /usr/sbin/fcgiwrap; do
        [ -x "$program" ] || { printf 'tests/web: there is no %s: make build, scripts/install-deps test\n' "$program" >&2; exit 1; }
    done
    PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q --durations=8 -p no:cacheprovider "$@"
}

case ${1:-all} in
    types) check_types ;;
    application) check_application ;;
    all)
        check_types
        check_application
        check_gateway .
        ;;
    *) check_gateway "$@" ;;
esac
