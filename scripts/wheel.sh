#!/usr/bin/env bash
# Builds dist/stoker-*.whl for every CPython from 3.10 on, with the distribution's libraries inside. Does nothing when
# the sources are those of the last time. The tools are in .venv-wheel, which `deps.sh wheel` makes.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=.venv-wheel/bin
sources=(include src libexec cli models/g2p python pyproject.toml meson.build meson_options.txt README.md LICENSE
         scripts/embed.py scripts/gen_op_list.py scripts/lintlib.py scripts/check_hardening.py
         scripts/*libraries* scripts/wheel*)

stamp=$(find "${sources[@]}" -type f -not -path '*/__pycache__/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum |
    sha256sum | cut -d ' ' -f 1)
if [ "$stamp" = "$(cat dist/.stamp 2>/dev/null)" ] && compgen -G 'dist/*.whl' >/dev/null; then
    echo "dist/ is up to date: $(basename dist/*.whl)"
    exit 0
fi
if [ ! -x "$tools/auditwheel" ]; then
    echo "wheel.sh: there is no $tools/auditwheel; run scripts/deps.sh wheel" >&2
    exit 77
fi

PATH=$PWD/$tools:$PATH
raw=build-wheel/raw repaired=build-wheel/repaired
rm -rf dist/*.whl dist/.stamp "$raw" "$repaired"
mkdir -p dist "$raw" "$repaired"
python -m pip wheel . -q --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$raw" \
    --config-settings=build-dir=build-wheel/meson
# The version of the interpreter that builds stands in the name, but the limited API is that of 3.10.
python -m wheel tags --python-tag cp310 --remove "$raw"/*.whl >/dev/null
auditwheel repair "$raw"/*.whl --wheel-dir "$repaired" >build-wheel/auditwheel.log 2>&1 ||
    { cat build-wheel/auditwheel.log >&2; exit 1; }
python scripts/wheel_notices.py "$repaired"/*.whl build-wheel/meson
python scripts/wheel_check.py "$repaired"/*.whl

wheel=$(echo "$repaired"/*.whl)
mv "$wheel" dist/
echo "$stamp" > dist/.stamp
du -h dist/*.whl
