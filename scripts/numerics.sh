#!/usr/bin/env bash
# Compares pixels and draws of the image ops with Pillow, torchvision and TensorFlow, and prints the table of
# docs/internals/images.md: numerics.sh [PART OF A TEST'S NAME...]
set -euo pipefail
cd "$(dirname "$0")/.."

[ -x build/tests/jpeg_tool ] || make build
tests=tests/python
failed=0

# Into the environments that the benchmarks use, as they do.
install() { # ENVIRONMENT REQUIREMENTS
    cmp -s "$2" "$1/$(basename "$2")" && return
    [ -x "$1/bin/python" ] || python3 -m venv "$1"
    echo "numerics.sh: installing $2 into $1"
    "$1/bin/python" -m pip install -q --disable-pip-version-check -r "$2" && cp "$2" "$1/"
}

compare() { # PYTHON PROGRAM [PART...]
    local python=$1 program=$2 status=0
    shift 2
    echo "== $program"
    "$python" "$tests/$program" build --table "$@" || status=$?
    [ "$status" -eq 0 ] || failed=1
}

compare .venv-test/bin/python test_image_numerics.py "$@"
STOKER_PICTURES=$(echo "$PWD"/.venv-test/lib/python3*/site-packages/skimage/data)
export STOKER_PICTURES
if install .venv-peers-torch bench/requirements-torch.txt; then
    compare .venv-peers-torch/bin/python numerics_torchvision.py "$@"
else
    echo "numerics.sh: torchvision could not be installed" >&2
    failed=1
fi
if install .venv-peers bench/peers/requirements.txt; then
    compare .venv-peers/bin/python numerics_tensorflow.py "$@"
else
    echo "numerics.sh: TensorFlow could not be installed" >&2
    failed=1
fi
exit "$failed"
