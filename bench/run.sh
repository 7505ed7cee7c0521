#!/usr/bin/env bash
# Builds what the benchmarks need beside build/stoker, then runs them: run.sh [NAME...] [--rounds N] [--quick]
set -euo pipefail
cd "$(dirname "$0")/.."

[ -x build/cli/stoker ] || make build
mkdir -p build/bench
for source in bench/make_set.c bench/limits/read_loop.c; do
    program=build/bench/$(basename "$source" .c)
    if [ "$source" -nt "$program" ] || [ src/kernels/crc32c.c -nt "$program" ]; then
        "${CC:-cc}" -std=c17 -O3 -D_POSIX_C_SOURCE=200809L -D_FILE_OFFSET_BITS=64 -Wall -Wextra -Wpedantic -Werror \
            -Iinclude -Isrc "$source" src/kernels/crc32c.c -o "$program"
    fi
done

# TensorFlow, for the comparison with tf.data; without it that row says so.
if ! cmp -s bench/peers/requirements.txt .venv-peers/requirements.txt; then
    [ -x .venv-peers/bin/python ] || python3 -m venv .venv-peers
    if .venv-peers/bin/python -m pip install -q --disable-pip-version-check -r bench/peers/requirements.txt; then
        cp bench/peers/requirements.txt .venv-peers/requirements.txt
    else
        echo "run.sh: could not install bench/peers/requirements.txt; 'parse' will not run" >&2
    fi
fi

# One that fails does not keep the others from running.
status=0
python3 bench/run.py "$@" || status=$?

# Images, HDF5, traces, g2p, Python and the ladder have tables of their own; they run when no benchmark was named.
quick=
for argument in "$@"; do
    case $argument in
    --quick) quick=1 ;;
    --* | [0-9]*) ;;
    *) exit "$status" ;;
    esac
done
bench/images.sh "$@" || status=$?
bench/hdf5.sh "$@" || status=$?
bench/traces.sh "$@" || status=$?
bench/g2p.sh "$@" || status=$?
bench/python.sh "$@" || status=$?
if [ "$quick" ]; then
    PICTURES=build/bench-data/images-quick build/cli/stoker bench --ladder bench/steps.toml --rounds 3 || status=$?
else
    build/cli/stoker bench --ladder bench/steps.toml --svg docs/img/ladder.svg --into docs/performance.md \
        --section ladder || status=$?
fi
exit "$status"
