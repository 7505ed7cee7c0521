#!/usr/bin/env bash
# The tests of the Python package with real PyTorch and TensorFlow, in the environments that the benchmarks use, then
# training scripts with Lightning, accelerate, transformers, timm, torchdata and Keras, in up to two processes:
# test_frameworks.sh [PYTEST-OPTION...]. Nothing is installed into the first two: the wheel and pytest go to a folder apart.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/wheel.sh
root=$PWD
status=0

environment() { # ENVIRONMENT REQUIREMENTS [ENVIRONMENT-TO-USE-AS-WELL]
    local venv=$1 wanted=$2 below=${3:-}
    if cmp -s "$wanted" "$venv/$(basename "$wanted")"; then
        return
    fi
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    if [ -n "$below" ]; then
        "$root/$below/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
            > "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth"
    fi
    "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$venv/"
}

tests() { # NAME ENVIRONMENT [PYTEST-OPTION...]
    local name=$1 venv=$2 place=build-wheel/frameworks-$1
    shift 2
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
        --rootdir "$root" "$@") || status=1
}

environment .venv-peers-torch bench/requirements-torch.txt
environment .venv-peers bench/peers/requirements.txt
environment .venv-frameworks tests/frameworks/requirements.txt .venv-peers-torch

package=("$root/tests/package" --ignore "$root/tests/package/test_types.py")
tests torch .venv-peers-torch "${package[@]}" "$@"
tests tensorflow .venv-peers "${package[@]}" "$@"
tests scripts .venv-frameworks "$root/tests/frameworks" "$@"
tests guides .venv-frameworks "$root/tests/package/test_guides.py" "$root/tests/package/test_torch.py" "$@"
exit "$status"
