#!/usr/bin/env bash
# Makes a build directory, or configures it again when tests came or went: configure.sh DIR [MESON OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$1
shift
tests=$(find tests -name '*_*.c' -o -name 'test_*.py' -o -name 'run.py' | LC_ALL=C sort)
tests+=$(find cli src examples -name meson.build | LC_ALL=C sort)
tests+=$(ls -d .venv-test/bin/python 2>/dev/null || true)

if [ ! -f "$dir/build.ninja" ]; then
    meson setup "$dir" "$@"
elif [ "$tests" != "$(cat "$dir/.test-list" 2>/dev/null)" ]; then
    meson setup --reconfigure "$dir" "$@"
fi
printf '%s\n' "$tests" > "$dir/.test-list"
