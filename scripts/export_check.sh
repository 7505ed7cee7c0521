#!/usr/bin/env bash
# Loads exports into PySpark and chDB and compares totals with stoker top: export_check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

[ -x build/stoker ] || make build
scripts/deps.sh export # PySpark runs on Java
wanted=bench/requirements-export.txt
environment=.venv-peers-export
if ! cmp -s "$wanted" "$environment/$(basename "$wanted")"; then
    [ -x "$environment/bin/python" ] || python3 -m venv "$environment"
    echo "export_check.sh: installing $wanted into $environment"
    "$environment/bin/python" -m pip install -q --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$environment/"
fi
exec "$environment/bin/python" tests/python/check_export.py build
