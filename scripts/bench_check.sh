#!/usr/bin/env bash
# Gives what `stoker bench` writes to the tools that it is for, also the heavy ones: bench_check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

[ -x build/stoker ] || make build
scripts/deps.sh go
wanted=bench/requirements-interchange.txt
environment=.venv-peers-interchange
if ! cmp -s "$wanted" "$environment/$(basename "$wanted")"; then
    [ -x "$environment/bin/python" ] || python3 -m venv "$environment"
    echo "bench_check.sh: installing $wanted into $environment"
    "$environment/bin/python" -m pip install -q --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$environment/"
fi
# The last version that Debian's Go can build.
if [ ! -x "$environment/bin/benchstat" ]; then
    GOBIN=$PWD/$environment/bin go install golang.org/x/perf/cmd/benchstat@v0.0.0-20230113213139-801c7ef9e5c5
fi
if [ ! -x "$environment/bin/actionlint" ]; then
    GOBIN=$PWD/$environment/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
fi
export PATH=$PWD/$environment/bin:$PATH
python tests/python/test_bench_formats.py build
python tests/python/test_bench_log.py build
python tests/python/test_change_points.py build
actionlint examples/ci/*.yml
