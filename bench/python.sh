#!/usr/bin/env bash
# The benchmarks of the Python package, with the peers and pictures of images.sh: python.sh [NAME...] [--rounds N] [--quick]
set -euo pipefail
cd "$(dirname "$0")/.."

make --no-print-directory build
quick=
for argument in "$@"; do
    [ "$argument" = --quick ] && quick=--quick
done
# Installs the peers and makes the pictures; measures nothing.
bench/images.sh cifar $quick --dry-run >/dev/null
exec python3 bench/python.py "$@"
