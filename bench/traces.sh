#!/usr/bin/env bash
# Builds the drivers, installs DuckDB, then runs the trace benchmarks: traces.sh [NAME...] [--rounds N] [--quick]
set -euo pipefail
cd "$(dirname "$0")/.."

[ -e build/src/trace/libstk_workbench.a ] || make build
mkdir -p build/bench
for source in make_trace trace_queries trace_sql; do
    "${CC:-cc}" -std=c17 -O2 -D_POSIX_C_SOURCE=200809L -D_FILE_OFFSET_BITS=64 -Wall -Wextra -Wpedantic \
        -Wno-unused-parameter -Wno-missing-field-initializers -Werror -Iinclude -Isrc "bench/$source.c" \
        build/src/analyze/libstk_analyze.a build/src/stats/libstk_stats.a build/src/trace/libstk_workbench.a \
        build/src/trace/libstk_trace.a build/src/base/libstk_base.a -lsqlite3 -lzstd -lz -lxxhash -lm -pthread -o "build/bench/$source"
done

wanted=bench/requirements-traces.txt
if ! cmp -s "$wanted" .venv-peers-traces/requirements-traces.txt; then
    [ -x .venv-peers-traces/bin/python ] || python3 -m venv .venv-peers-traces
    .venv-peers-traces/bin/python -m pip install -q --disable-pip-version-check -r "$wanted"
    cp "$wanted" .venv-peers-traces/
fi

exec python3 bench/traces.py "$@"
