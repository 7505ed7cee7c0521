#!/usr/bin/env bash
# The long tests, which look for what goes wrong one time in a thousand: every test that has a long form (STOKER_TORTURE=1),
# then every writer under every fault (tests/torture/run.py, which gets the arguments: --seed N, --only TEXT). Takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

names=()
for folder in unit ops stress python; do
    while read -r file; do
        name=$(basename "$file")
        name=${name%.*}
        [ "$folder" = ops ] && name=op_$name # as tests/meson.build calls them
        names+=("$name")
    done < <(grep -lE 'STOKER_TORTURE' tests/"$folder"/*.c tests/"$folder"/*.py 2>/dev/null | LC_ALL=C sort)
done

failed=0
echo "== long forms: ${names[*]}"
STOKER_TORTURE=1 meson test -C build --no-rebuild --print-errorlogs --timeout-multiplier 30 --num-processes "$(nproc)" "${names[@]}" ||
    failed=1

echo "== writers"
python=.venv-test/bin/python
[ -x "$python" ] || python=python3
"$python" tests/torture/run.py build "$@" || failed=1
exit "$failed"
