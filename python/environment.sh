# What check.sh, wheel.sh and bench.sh have in common: an environment of its own for the Python package, in cargo's target folder.
# To be sourced in this folder, with `requirements` set to what that has beside the builders, and `tools` its name.
# shellcheck shell=bash

# Where cargo builds to, with what the main workspace has built already, and the rest in a folder there.
cargo_target=${TARGET:-${CARGO_TARGET_DIR:-$PWD/../target}}
target=$(mkdir -p "$cargo_target/python" && cd "$cargo_target/python" && pwd)
cargo_target=$(dirname "$target")
# The profile of the extension module.
profile=${PROFILE:-release}
# The first python3 of PATH may be no more than a launcher of another one.
python=${PYTHON:-/usr/bin/python3}
tools=$target/${tools:?}
# What builds wheels.
requirements+=(maturin==1.16.0 ziglang==0.17.1)

# Prints what comes next.
say() {
    printf 'python: %s\n' "$1"
}

# Makes the environment, unless there is one of these requirements already.
prepare() {
    local wanted="$python ${requirements[*]:?}"
    if [ "$(cat "$tools/wanted" 2>/dev/null)" != "$wanted" ]; then
        say 'environment'
        rm -rf "$tools"
        "$python" -m venv "$tools"
        "$tools/bin/pip" install --quiet --disable-pip-version-check "${requirements[@]}"
        printf '%s\n' "$wanted" >"$tools/wanted"
    fi
}

# Builds the wheel that users get, of this profile, and checks it: it serves each CPython from 3.9, and each Linux with the GNU C library
# 2.17, because zig links it with that. The folder is the first argument.
build_wheel() {
    say 'wheel'
    rm -rf "$1"
    # maturin finds zig in its own environment. The extension takes the system's unwinder: zig would put one of its own into it, and that
    # crashes where the C library ends a thread.
    PATH=$tools/bin:$PATH CARGO_TARGET_DIR=$cargo_target "$tools/bin/maturin" build --quiet --profile "$profile" --locked \
        --zig --compatibility manylinux_2_17 --interpreter "$tools/bin/python" --out "$1" \
        -- -C "link-arg=$("${CC:-cc}" -print-file-name=libgcc_s.so.1)"
    "$python" check_wheel.py "$1"/*.whl "$cargo_target"
}

# Builds a wheel and installs it.
install_package() {
    build_wheel "$target/wheels"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$target"/wheels/*.whl
}

# Has interpreters.py find Debian's newest CPython, too, which machines do not have yet.
find_newest_cpython() {
    local newest
    say "Debian's newest CPython"
    newest=$(./newest_cpython.sh "$target/newest-cpython") || return
    export REGROW_PYTHONS=${REGROW_PYTHONS:+$REGROW_PYTHONS:}$newest
}
