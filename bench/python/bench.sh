#!/usr/bin/env bash
# Measures the Python package beside what people use for the same, in an environment of its own: `bench.sh OUTPUT`. The figures go to
# the JSON file OUTPUT, those of Celery, of packages' test suites and of other interpreters to others beside it. `make build` builds the
# command before.
set -euo pipefail
output=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../python"

requirements=(pytest==8.4.2 pytest-forked==1.7.5 pytest-isolate==0.0.17 numpy pandas
    celery==5.7.0 redis==8.1.0)
tools=bench-venv
# shellcheck source=python/environment.sh
source environment.sh

prepare
# Both are for orientation alone: where one does not install, its row is left out.
for one in gunicorn==23.0.0 ray==2.51.1; do
    "$tools/bin/pip" install --quiet --disable-pip-version-check "$one" || say "$one does not install"
done
install_package
export PYTHONDONTWRITEBYTECODE=1
PYTHONPATH=$here/.. "$tools/bin/python" "$here/fresh_processes.py" "$(dirname "$target")/release/regrow" "$output"
PYTHONPATH=$here/.. "$tools/bin/python" "$here/celery_tasks.py" "$(dirname "$output")/celery.json"
# The suites of packages have environments of their own, which are kept.
PYTHONPATH=$here/..:tests "$tools/bin/python" "$here/package_suites.py" "$target/suites" "${output%.json}-suites.json"
# Each CPython from 3.11 that is here, and Debian's newest, with the wheel alone.
find_newest_cpython || say 'it is not to be had here: the others are measured'
pythons=()
while read -r interpreter; do
    version=$("$interpreter" -c 'import sys; print(sys.version.split()[0], int(sys.version_info >= (3, 11)))')
    [ "${version#* }" = 1 ] || continue
    rm -rf "$target/bench-${version% *}"
    "$interpreter" -m venv "$target/bench-${version% *}"
    "$target/bench-${version% *}/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$target"/wheels/*.whl
    pythons+=("$target/bench-${version% *}/bin/python")
done < <(./interpreters.py)
PYTHONPATH=$here/.. "$tools/bin/python" "$here/interpreters.py" "${output%.json}-interpreters.json" "${pythons[@]}"
