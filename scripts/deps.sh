#!/usr/bin/env bash
# Installs what is missing on Debian and its kin, and nothing else: deps.sh [fuzz] [format] [export] [go]
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
need_command() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need_library() { pkg-config --exists "$1" 2>/dev/null || missing+=("$2"); }

need_command cc gcc
need_command c++ g++
need_command make make
need_command meson meson
need_command ninja ninja-build
need_command pkg-config pkg-config
need_command python3 python3
need_command nm binutils
need_library zlib zlib1g-dev
need_library libxxhash libxxhash-dev
need_library libdeflate libdeflate-dev
need_library libjpeg libjpeg62-turbo-dev
need_library libpng libpng-dev
need_library libwebp libwebp-dev
[ -e /usr/include/gif_lib.h ] || missing+=(libgif-dev)
need_library hdf5-serial libhdf5-dev
[ -e /usr/include/szlib.h ] || missing+=(libaec-dev)
need_library liblzf liblzf-dev
need_library liblz4 liblz4-dev
need_library libzstd libzstd-dev
need_library blosc libblosc-dev
need_library jansson libjansson-dev
need_library sqlite3 libsqlite3-dev
need_library libedit libedit-dev
need_library cmocka libcmocka-dev
need_command git git
need_command hyperfine hyperfine
[ -e /usr/share/benchmark/compare.py ] || missing+=(libbenchmark-tools)
python3 -c 'import ensurepip' >/dev/null 2>&1 || missing+=(python3-venv)
python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' >/dev/null 2>&1 ||
    missing+=(python3-dev)
for wish in "$@"; do
    case $wish in
    fuzz)
        need_command clang clang
        # The fuzzer's and the sanitizers' own libraries are a package apart.
        runtime=$(clang -print-resource-dir 2>/dev/null || true)
        compgen -G "$runtime/lib/linux/libclang_rt.fuzzer-*.a" >/dev/null || missing+=(libclang-rt-dev)
        ;;
    format) need_command clang-format clang-format ;;
    export) need_command java default-jre-headless ;;
    go) need_command go golang-go ;;
    *) echo "deps.sh: unknown '$wish', wanted fuzz, format, export or go" >&2; exit 2 ;;
    esac
done

if [ ${#missing[@]} -gt 0 ]; then
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
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# Environments of Python packages. Without them the tests that need them are skipped, and say so.
pip_install() { "$1/bin/python" -m pip install -q --disable-pip-version-check "${@:2}"; }

fresh_venv() { rm -rf "$1" && python3 -m venv "$1"; }

# What tests compare with, and photographs.
wanted=tests/python/requirements.txt
pictures=tests/python/requirements-pictures.txt
if ! cat "$wanted" "$pictures" | cmp -s - .venv-test/requirements.txt; then
    fresh_venv .venv-test
    if pip_install .venv-test -r "$wanted" && pip_install .venv-test --no-deps -r "$pictures"; then
        cat "$wanted" "$pictures" > .venv-test/requirements.txt
    else
        echo "deps.sh: could not install $wanted and $pictures; tests that need them will be skipped" >&2
    fi
fi

# What builds the wheel of the Python package, and what its tests run with.
for pair in .venv-wheel:python/requirements-wheel.txt .venv-package:tests/python/requirements-package.txt; do
    venv=${pair%%:*} wanted=${pair#*:}
    if ! cmp -s "$wanted" "$venv/requirements.txt"; then
        fresh_venv "$venv"
        if pip_install "$venv" -r "$wanted"; then
            cp "$wanted" "$venv/requirements.txt"
        else
            echo "deps.sh: could not install $wanted; tests of the Python package will be skipped" >&2
        fi
    fi
done
