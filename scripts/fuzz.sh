#!/usr/bin/env bash
# Builds the fuzz targets with libFuzzer and runs each for FUZZ_SECONDS (60): fuzz.sh [TARGET...]
# New inputs are kept in build-fuzz/corpus; what crashes is left in build-fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."

export CC=${FUZZ_CC:-clang}
scripts/configure.sh build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
ninja -C build-fuzz
mkdir -p build-fuzz/findings
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(python3 scripts/list_tests.py fuzz fuzz_ .c)
failed=0
for target in "${targets[@]}"; do
    echo "== $target"
    mkdir -p "build-fuzz/corpus/$target"
    "build-fuzz/tests/$target" -max_total_time="${FUZZ_SECONDS:-60}" -print_final_stats=1 -timeout=20 -rss_limit_mb=4096 \
        -artifact_prefix="build-fuzz/findings/$target-" "build-fuzz/corpus/$target" "tests/fuzz/corpus/$target" 2>&1 |
        tail -n 12 || failed=1
done
exit "$failed"
