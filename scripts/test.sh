#!/usr/bin/env bash
# All tests: lint, then the plain build, then the builds with sanitizers. The last line sums up.
# STOKER_TEST_BUILDS chooses: "plain asan tsan" unless set.
set -euo pipefail
cd "$(dirname "$0")/.."

builds=${STOKER_TEST_BUILDS:-plain asan tsan}
jobs=$(nproc)
dirs=()
skipped_builds=0

run_tests() { # DIR MESON-TEST-OPTION...
    local dir=$1
    shift
    dirs+=("$dir")
    rm -f "$dir"/meson-logs/testlog*.json
    # Failures are told by the summary, after everything has run.
    meson test -C "$dir" --no-rebuild --print-errorlogs --num-processes "$jobs" "$@" || true
}

# Old runtimes of the thread sanitizer do not start where addresses are spread over more bits than they know.
tsan_wrapper() {
    local dir
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' RETURN
    echo 'int main(void) { return 0; }' > "$dir/t.c"
    ${CC:-cc} -fsanitize=thread "$dir/t.c" -o "$dir/t" || return 1
    local try ok
    for wrapper in "" "setarch $(uname -m) -R"; do
        ok=yes
        for try in 1 2 3 4 5; do
            $wrapper "$dir/t" >/dev/null 2>&1 || ok=no
        done
        [ "$ok" = yes ] && { echo "$wrapper"; return 0; }
    done
    return 1
}

for build in $builds; do
    echo "== $build"
    case $build in
    plain)
        scripts/lint.sh
        make --no-print-directory build
        run_tests build
        ;;
    asan)
        scripts/configure.sh build-asan -Db_sanitize=address,undefined -Db_lundef=false
        ninja -C build-asan
        run_tests build-asan --no-suite python --timeout-multiplier 4
        ;;
    tsan)
        if ! wrapper=$(tsan_wrapper); then
            echo "the thread sanitizer does not start on this machine: skipped"
            skipped_builds=1
            continue
        fi
        scripts/configure.sh build-tsan -Db_sanitize=thread -Db_lundef=false
        ninja -C build-tsan
        run_tests build-tsan --suite unit --suite ops --suite stress --timeout-multiplier 6 ${wrapper:+--wrapper="$wrapper"}
        ;;
    *)
        echo "test.sh: unknown build '$build', wanted plain, asan or tsan" >&2
        exit 2
        ;;
    esac
done

echo "== all"
exec python3 scripts/summarize.py --extra-skipped "$skipped_builds" "${dirs[@]}"
