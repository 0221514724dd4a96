#!/usr/bin/env bash
# Measures the web gateway beside what people use for the same.
#
#     bench.sh FOLDER               the figures go to FOLDER/web.json, what the plots show to FOLDER/pages.json
#     bench.sh --draw PAGES FOLDER  draws the plots of a pages.json into FOLDER, and measures nothing
#
# `make build` builds the command before.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pages=
if [ "$1" = --draw ]; then
    pages=$(realpath "$2")
    shift 2
fi
folder=$(mkdir -p "$1" && realpath "$1")
cd "$here/../../python"

requirements=(matplotlib==3.10.7)
# shellcheck disable=SC2034 # environment.sh reads it
tools=web-bench-venv
# shellcheck source=python/environment.sh
source environment.sh
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/..:$here/../../tests/web

prepare >&2
if [ -n "$pages" ]; then
    exec "$tools/bin/python" "$here/draw_pages.py" "$pages" "$folder"
fi
for program in ab apache2 fcgiwrap gcc nginx; do
    PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || {
        printf 'bench-web: there is no %s; Debian has it (apache2, apache2-utils, fcgiwrap, gcc, nginx)\n' "$program" >&2
        exit 1
    }
done
# Where it does not install, its rows are left out.
"$tools/bin/pip" install --quiet --disable-pip-version-check gunicorn==23.0.0 || say 'gunicorn does not install' >&2
command=${REGROW:-$(dirname "$target")/release/regrow}
# Also when runs are not what the first part claims, the second part measures.
status=0
"$tools/bin/python" "$here/fast_pages.py" "$command" "$folder/web.json" || status=$?
"$tools/bin/python" "$here/paper_figures.py" "$command" "$folder/pages.json" || status=$?
exit "$status"
