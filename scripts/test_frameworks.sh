#!/usr/bin/env bash
# The tests of the Python package with real PyTorch and TensorFlow, in the environments that the benchmarks use:
# test_frameworks.sh [PYTEST-OPTION...]. Nothing is installed into these: the wheel and pytest go to a folder apart.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/wheel.sh
root=$PWD
status=0

frameworks() { # NAME ENVIRONMENT REQUIREMENTS
    local name=$1 venv=$2 wanted=$3 place=build-wheel/frameworks-$1
    shift 3
    if [ ! -x "$venv/bin/python" ]; then
        python3 -m venv "$venv"
        "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$wanted"
        cp "$wanted" "$venv/"
    fi
    if ! sha256sum -c --status "$place/wheel.sum" 2>/dev/null; then
        rm -rf "$place"
        "$venv/bin/python" -m pip install -q --disable-pip-version-check --target "$place" pytest dist/*.whl
        # What the environment has itself must win.
        rm -rf "$place"/numpy* "$place"/packaging*
        sha256sum dist/*.whl > "$place/wheel.sum"
    fi
    echo "== $name"
    (cd "$place" && PYTHONPATH=$PWD STOKER_BUILD=$root/build PYTHONDONTWRITEBYTECODE=1 TF_CPP_MIN_LOG_LEVEL=3 \
        "$root/$venv/bin/python" -m pytest -q -rs --tb=short -p no:cacheprovider -c "$root/pyproject.toml" \
        --rootdir "$root" "$root/tests/package" --ignore "$root/tests/package/test_types.py" "$@") || status=1
}

frameworks torch .venv-peers-torch bench/requirements-torch.txt "$@"
frameworks tensorflow .venv-peers bench/peers/requirements.txt "$@"
exit "$status"
