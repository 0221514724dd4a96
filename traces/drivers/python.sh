#!/usr/bin/env bash
# A Python test suite: the tests of Python itself that start processes, as Debian packages them (libpython3.11-testsuite):
# what `traces/python-1000.csv` is recorded from. `python.sh [TEST …]` runs others.
set -euo pipefail
cd "$(mktemp --directory /tmp/regrow-python.XXXXXX)"
trap 'rm -rf "$PWD"' EXIT
# A test that cannot pass where it is recorded is no matter: what counts is what was started.
tests=(test_cmd_line test_cmd_line_script test_popen test_subprocess test_faulthandler
    test_script_helper test_runpy test_site test_sys test_utf8_mode test_warnings test_zipfile test_gzip test_tracemalloc
    test_threading test_signal test_os test_io test_json test_compileall test_regrtest)
[ $# -eq 0 ] || tests=("$@")
/usr/bin/python3 -m test -q "${tests[@]}" >/dev/null 2>&1 || true
