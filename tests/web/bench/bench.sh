#!/usr/bin/env bash
# Measures the web gateway beside what people use for the same: `bench.sh FOLDER`. The figures go to FOLDER/web.json, what the plots of
# the paper's experiments are drawn of to FOLDER/web-paper.json, and these plots to FOLDER/web-paper/. The command is built before.
set -euo pipefail
folder=$(mkdir -p "$1" && realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../../python"

for program in ab apache2 fcgiwrap gcc nginx; do
    PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || {
        printf 'bench-web: there is no %s; Debian has it (apache2, apache2-utils, fcgiwrap, gcc, nginx)\n' "$program" >&2
        exit 1
    }
done
requirements=(matplotlib==3.10.7)
# shellcheck disable=SC2034 # environment.sh reads it
tools=web-bench-venv
# shellcheck source=python/environment.sh
source environment.sh

prepare >&2
# Its rows are left out where it does not install.
"$tools/bin/pip" install --quiet --disable-pip-version-check gunicorn==23.0.0 || say 'gunicorn does not install' >&2
command=${REGROW:-$(dirname "$target")/release/regrow}
export PYTHONDONTWRITEBYTECODE=1
# What is measured is told to the end, also where it is not what is claimed.
status=0
"$tools/bin/python" "$here/fast_pages.py" "$command" "$folder/web.json" || status=$?
"$tools/bin/python" "$here/paper_figures.py" "$command" "$folder/web-paper.json" "$folder/web-paper"
exit "$status"
