#!/usr/bin/env bash
# The lints that need no build.
set -euo pipefail
cd "$(dirname "$0")"

failed=0
for check in check_layers.py check_ops.py check_functions.py check_calls.py check_text.py check_headers.py; do
    python3 "$check" || failed=1
done
exit "$failed"
