#!/usr/bin/env bash
# Records the labelled profiles of tests/data/verdicts anew: make_traces.sh [NAME-PATTERN...]. Wants a quiet machine.
# STOKER_TRACES_VENV names an environment to use instead of .venv-traces.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=tests/traces/requirements.txt
environment=${STOKER_TRACES_VENV:-.venv-traces}
if [ -z "${STOKER_TRACES_VENV:-}" ] && ! cmp -s "$wanted" "$environment/$(basename "$wanted")"; then
    [ -x "$environment/bin/python" ] || python3 -m venv "$environment"
    echo "make_traces.sh: installing $wanted into $environment"
    "$environment/bin/python" -m pip install -q --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$environment/"
fi
exec python3 tests/traces/record.py "$environment" tests/data/verdicts "$@"
