#!/usr/bin/env bash
# Builds the bare loops, installs the peers, then runs the image benchmarks: images.sh [NAME...] [--rounds N] [--quick]
set -euo pipefail
cd "$(dirname "$0")/.."

[ -x build/cli/stoker ] || make build
tools=build/bench
mkdir -p "$tools"

# ---- bare loops ----

compile() { # NAME LIBRARY...
    local name=$1
    shift
    "${CC:-cc}" -std=c17 -O3 -D_POSIX_C_SOURCE=200809L -D_FILE_OFFSET_BITS=64 -Wall -Wextra -Wpedantic \
        -Wno-unused-parameter -Werror -Iinclude -Isrc -Ibench/limits "bench/limits/$name.c" bench/limits/pictures.c \
        "$@" -pthread -o "$tools/$name"
}
compile jpeg_loop -ljpeg
compile png_loop -lpng -lz
compile cifar_loop build/src/formats/libstk_formats.a build/src/kernels/libstk_kernels.a build/src/base/libstk_base.a \
    -ldeflate -ljpeg -lwebp -lgif -lz -lxxhash -lm

# ---- peers ----

# What cannot be installed is left out; images.py finds the reason in build/bench/NAME.reason and tells it.
give_up() { # NAME REASON
    echo "$2" >"$tools/$1.reason"
    echo "images.sh: without $1: $2" >&2
}

add() { # NAME ENVIRONMENT REQUIREMENTS [PIP-OPTION...]
    local name=$1 venv=$2 wanted=$3
    shift 3
    cmp -s "$wanted" "$venv/$(basename "$wanted")" && return
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    echo "images.sh: installing $name into $venv"
    if "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@" -r "$wanted" >"$tools/$name.log" 2>&1; then
        cp "$wanted" "$venv/"
        rm -f "$tools/$name.reason"
    else
        give_up "$name" "pip: $(grep -iE 'error' "$tools/$name.log" | tail -n 1)"
    fi
}

# FFCV wants all of OpenCV through pkg-config, but uses two parts of it; Debian's package of these is small.
opencv() {
    if [ ! -e /usr/include/opencv4/opencv2/imgproc.hpp ] || ! pkg-config --exists libturbojpeg; then
        [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 1
        apt-get install -y -qq --no-install-recommends libopencv-imgproc-dev libturbojpeg0-dev >/dev/null || return 1
    fi
    local folder=$PWD/$tools/opencv
    mkdir -p "$folder/opencv2"
    printf '#include <opencv2/core.hpp>\n#include <opencv2/imgproc.hpp>\n' >"$folder/opencv2/opencv.hpp"
    cat >"$folder/opencv4.pc" <<EOF
Name: opencv4
Description: the two parts of OpenCV that FFCV uses
Version: 4
Cflags: -I$folder -I/usr/include/opencv4
Libs: -lopencv_imgproc -lopencv_core
EOF
    export PKG_CONFIG_PATH=$folder
}

add tfdata .venv-peers bench/peers/requirements.txt
add torch .venv-peers-torch bench/requirements-torch.txt
add dali .venv-peers-dali bench/requirements-dali.txt
add data .venv-peers-data bench/requirements-data.txt --no-deps
if [ -e "$tools/torch.reason" ]; then
    give_up ffcv "it needs torch"
elif cmp -s bench/requirements-ffcv.txt .venv-peers-torch/requirements-ffcv.txt || opencv; then
    add ffcv .venv-peers-torch bench/requirements-ffcv.txt
else
    give_up ffcv "the headers of OpenCV or libturbojpeg are missing"
fi

exec python3 bench/images.py "$@"
