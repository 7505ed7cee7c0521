#!/usr/bin/env bash
# Builds the bare loop, installs h5py, then runs the HDF5 benchmarks: hdf5.sh [NAME...] [--rounds N] [--quick]
set -euo pipefail
cd "$(dirname "$0")/.."

[ -x build/cli/stoker ] || make build
mkdir -p build/bench
"${CC:-cc}" -std=c17 -O3 -D_POSIX_C_SOURCE=200809L -D_FILE_OFFSET_BITS=64 -Wall -Wextra -Wpedantic -Werror -Iinclude -Isrc \
    bench/limits/hdf5_loop.c build/src/kernels/libstk_kernels.a build/src/base/libstk_base.a -ldeflate -lm -pthread \
    -o build/bench/hdf5_loop

wanted=bench/requirements-hdf5.txt
if ! cmp -s "$wanted" .venv-peers-hdf5/requirements-hdf5.txt; then
    [ -x .venv-peers-hdf5/bin/python ] || python3 -m venv .venv-peers-hdf5
    .venv-peers-hdf5/bin/python -m pip install -q --disable-pip-version-check -r "$wanted"
    cp "$wanted" .venv-peers-hdf5/
fi

exec python3 bench/hdf5.py "$@"
