#!/usr/bin/env bash
# Builds the steps in C, installs the peers, then runs the g2p benchmarks: g2p.sh [NAME...] [--rounds N] [--quick]
set -euo pipefail
cd "$(dirname "$0")/.."

[ -e build/src/libstoker.so ] && [ -x build/cli/stoker ] || make build
tools=build/bench
mkdir -p "$tools"

compile() { # PROGRAM SOURCE OPTION...
    local program=$1 source=$2
    shift 2
    "${CC:-cc}" -std=c17 -O3 -D_POSIX_C_SOURCE=200809L -D_FILE_OFFSET_BITS=64 -Wall -Wextra -Wpedantic \
        -Wno-missing-field-initializers -Werror -Iinclude -Ibench "$source" "$@" -o "$tools/$program"
}
compile g2p_steps bench/limits/g2p_steps.c -march=native -ffast-math -lm
compile g2p_split bench/limits/g2p_split.c
compile g2p_limit bench/limits/g2p_limit.c -march=native
compile g2p_words bench/g2p_words.c -Lbuild/src -lstoker "-Wl,-rpath,$PWD/build/src"

# What cannot be installed is left out; g2p.py finds the reason in build/bench/NAME.reason and tells it.
add() { # NAME ENVIRONMENT REQUIREMENTS
    local name=$1 venv=$2 wanted=$3
    if cmp -s "$wanted" "$venv/$(basename "$wanted")"; then
        rm -f "$tools/$name.reason"
        return
    fi
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    echo "g2p.sh: installing $name into $venv"
    if "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$wanted" >"$tools/$name.log" 2>&1; then
        cp "$wanted" "$venv/"
        rm -f "$tools/$name.reason"
    else
        echo "pip: $(grep -iE 'error' "$tools/$name.log" | tail -n 1)" >"$tools/$name.reason"
        echo "g2p.sh: without $name: $(cat "$tools/$name.reason")" >&2
    fi
}
add g2p .venv-peers-g2p bench/requirements-g2p.txt
# The environment of the image benchmarks: PyTorch is large.
add torch .venv-peers-torch bench/requirements-torch.txt

exec python3 bench/g2p.py "$@"
