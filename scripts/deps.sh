#!/usr/bin/env bash
# Installs what is missing on Debian and Ubuntu, and nothing else:
#   deps.sh [build] [wheel] [demo] [test] [package] [bench] [fuzz] [format] [export] [go]
# build (unless told otherwise): compiler, Meson and libraries. The others add what the `make` target of that name needs;
# test and package are the two large environments of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- build

missing=()
need_command() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }

# Libraries of these kinds, by scripts/libraries.txt.
need_libraries() {
    local name package kind
    while read -r name package kind; do
        [[ $name != \#* && " $* " == *" $kind "* ]] || continue
        case $name in
        *.h) [ -e "/usr/include/$name" ] || missing+=("$package") ;;
        *) pkg-config --exists "$name" 2>/dev/null || missing+=("$package") ;;
        esac
    done < scripts/libraries.txt
}

need_compiler() {
    need_command cc gcc
    need_command pkg-config pkg-config
    need_command python3 python3
    need_command nm binutils
    python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' >/dev/null 2>&1 ||
        missing+=(python3-dev)
}

need_venv() { python3 -c 'import ensurepip' >/dev/null 2>&1 || missing+=(python3-venv); }

for wish in "$@"; do
    case $wish in
    build)
        need_compiler
        need_command make make
        need_command meson meson
        need_command ninja ninja-build
        need_libraries build more tests
        ;;
    wheel)
        need_compiler
        need_libraries build more
        need_venv
        ;;
    test)
        need_command c++ g++
        need_command git git
        need_command hyperfine hyperfine
        need_command valgrind valgrind
        [ -e /usr/share/benchmark/compare.py ] || missing+=(libbenchmark-tools)
        need_venv
        ;;
    bench)
        need_command c++ g++
        need_command git git
        need_venv
        ;;
    package | demo) need_venv ;;
    fuzz)
        need_command clang clang
        # The fuzzer's and the sanitizers' own libraries are a package apart.
        runtime=$(clang -print-resource-dir 2>/dev/null || true)
        compgen -G "$runtime/lib/linux/libclang_rt.fuzzer-*.a" >/dev/null || missing+=(libclang-rt-dev)
        ;;
    format) need_command clang-format clang-format ;;
    export) need_command java default-jre-headless ;;
    go) need_command go golang-go ;;
    *)
        echo "deps.sh: unknown '$wish', wanted build, wheel, demo, test, package, bench, fuzz, format, export or go" >&2
        exit 2
        ;;
    esac
done

if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | LC_ALL=C sort -u)
    echo "missing: ${missing[*]}"
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "deps.sh: there is no apt-get here; install these packages, or what your system calls them" >&2
        exit 1
    fi
    if [ "$(id -u)" -eq 0 ]; then
        as_root=()
    elif command -v sudo >/dev/null 2>&1; then
        as_root=(sudo)
    else
        echo "deps.sh: neither root nor sudo; ask for: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    "${as_root[@]}" apt-get update -qq
    wanted=()
    for package in "${missing[@]}"; do
        # Ubuntu 22.04 has its files in the packages of clang itself.
        [ "$package" = libclang-rt-dev ] && ! apt-cache show "$package" >/dev/null 2>&1 && continue
        wanted+=("$package")
    done
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}"
fi

# ---- environments of Python packages ----
# Without them the tests that need them are skipped, and say so.

pip_install() { "$1/bin/python" -m pip install -q --disable-pip-version-check "${@:2}"; }

fresh_venv() { rm -rf "$1" && python3 -m venv "$1"; }

# What is in a file of requirements, in an environment of its own: VENV FILE WHAT-IS-LOST
environment() {
    cmp -s "$2" "$1/requirements.txt" && return
    fresh_venv "$1"
    if pip_install "$1" -r "$2"; then
        cp "$2" "$1/requirements.txt"
    else
        echo "deps.sh: could not install $2; $3" >&2
    fi
}

# What tests compare with, and photographs.
environment_of_tests() {
    local wanted=tests/python/requirements.txt pictures=tests/python/requirements-pictures.txt
    cat "$wanted" "$pictures" | cmp -s - .venv-test/requirements.txt && return
    fresh_venv .venv-test
    if pip_install .venv-test -r "$wanted" && pip_install .venv-test --no-deps -r "$pictures"; then
        cat "$wanted" "$pictures" > .venv-test/requirements.txt
    else
        echo "deps.sh: could not install $wanted and $pictures; tests that need them will be skipped" >&2
    fi
}

for wish in "$@"; do
    case $wish in
    test) environment_of_tests ;;
    wheel) environment .venv-wheel python/requirements-wheel.txt "there will be no wheel, and tests of it are skipped" ;;
    package)
        environment .venv-package tests/python/requirements-package.txt "tests of the Python package will be skipped"
        ;;
    demo) environment .venv-demo python/requirements-demo.txt "the part of the demo in Python is left out" ;;
    esac
done
