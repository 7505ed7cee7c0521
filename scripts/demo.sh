#!/usr/bin/env bash
# The story that Stoker began with, on made-up pictures: a trainer that waits, and one that does not. demo.sh, after `make
# build`. STOKER_BUILD is the build directory (build), DEMO_DATA where the files go (demo-data), DEMO_PICTURES how many
# pictures there are (50000, as in CIFAR-10), DEMO_STEP how long a training step takes (10ms).
set -euo pipefail
cd "$(dirname "$0")/.."

build=${STOKER_BUILD:-build}
data=${DEMO_DATA:-demo-data}
pictures=${DEMO_PICTURES:-50000}
step=${DEMO_STEP:-10ms}
stoker=$build/stoker
bold='' plain=''
if [ -t 1 ]; then
    bold=$(tput bold 2>/dev/null || true) plain=$(tput sgr0 2>/dev/null || true)
fi
# A launcher's rank would make this a part of the whole.
unset RANK WORLD_SIZE OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE SLURM_PROCID SLURM_NTASKS

title() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
say_command() { # COMMAND...: prints it as one would type it
    local word line='$'
    for word in "$@"; do
        case $word in
        *[\ \|\"\(*]*) line+=" '$word'" ;;
        *) line+=" $word" ;;
        esac
    done
    printf '%s\n' "$line"
}
show() { # COMMAND...: prints and runs it
    say_command "$@"
    "$@" 2>&1
}
measure() { # FILE COMMAND...: the same, and keeps the figures of --json in FILE
    local file=$1
    shift
    say_command "$@"
    "$@" --json 2>&1 > "$file"
}
figure() { # FILE KEY: one number of --json
    sed -n "s/.*\"$2\":\(-\{0,1\}[0-9.][0-9.e+-]*\).*/\1/p" "$1"
}
row() { # NAME FILE: of the table in part 4
    awk -v name="$1" -v wait="$(figure "$2" median)" -v all="$(figure "$2" consumer_wait_s)" \
        -v seconds="$(figure "$2" seconds)" \
        'BEGIN { printf "  %-14s %10.2f s %10.2f s %10.0f %%\n", name, wait, seconds, 100 * (1 - all / seconds) }'
}
bug() {
    echo "demo: $*; this is a bug" >&2
    exit 1
}

rm -rf "$data"
mkdir -p "$data"
job=$data/cifar.stoker
sed "s#demo-data/#$data/#; /^#/d" examples/cifar.stoker > "$job"
sed '/shuffle/d' "$job" > "$data/naive.stoker"

title "1. A data set like CIFAR-10: $pictures made-up photographs in 10 classes, PNG in 10 TFRecord files"
show "$stoker" run --quiet --plugin "$build/examples/op_pictures.so" \
    -e "pictures($pictures) | encode_png(image) | write_tfrecord(\"$data/cifar-%05d.tfrecord\", shards=10)"
show "$stoker" inspect "$data/cifar-00000.tfrecord"

title "2. The naive order: one file after another, one thread, a batch is made when the trainer asks for it"
echo "A training step of $step for each batch of 512 stands for the GPU."
measure "$data/naive.json" "$stoker" run "$data/naive.stoker" --threads 1 --on-demand --step-time "$step" \
    --trace "$data/naive.pftrace"

title "3. The same job as a pipeline: shuffled over all files, all cores, batches made ahead"
show cat "$job"
echo
show "$stoker" plan "$job"
echo
measure "$data/pipeline.json" "$stoker" run "$job" --step-time "$step" --trace "$data/demo.pftrace"

title "4. What the GPU saw"
printf '  %-14s %12s %12s %12s\n' '' 'wait/epoch' 'whole run' 'GPU busy'
row "naive order" "$data/naive.json"
row "the pipeline" "$data/pipeline.json"

title "5. The traces say it themselves: who is input-bound, and where the time goes"
show "$stoker" diagnose "$data/naive.pftrace" --no-cache
echo
show "$stoker" top "$data/demo.pftrace" --no-cache --limit 8
echo
show "$stoker" sql "$data/demo.pftrace" --no-cache -q 'SELECT name, sum(dur), avg(dur), min(dur), max(dur) FROM slice GROUP BY name ORDER BY 2 DESC LIMIT 3'

title "6. One thread or two, interrupted or not: the same bytes"
one=$(show "$stoker" run "$job" --quiet --digest --threads 1)
two=$(show "$stoker" run "$job" --quiet --digest --threads 2)
printf '%s\n%s\n' "$one" "$two"
[ "${one##*digest }" = "${two##*digest }" ] || bug "the digests differ"
echo "\$ $stoker run $job --quiet --digest --checkpoint $data/run.ck --step-time $step    # then Ctrl-C"
"$stoker" run "$job" --quiet --digest --checkpoint "$data/run.ck" --checkpoint-every 10 --step-time "$step" &
pid=$!
while [ ! -s "$data/run.ck" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
kill -INT "$pid" 2>/dev/null || true
wait "$pid" || true
batches=$(sed -n 's/^batches //p' "$data/run.ck")
rest=$(show "$stoker" run "$job" --quiet --digest --resume "$data/run.ck")
printf '%s\n' "$rest"
[ "${one##*digest }" = "${rest##*digest }" ] || bug "after an interrupt the digest is another one"
echo "Stopped after batch $batches, gone on from there: the digest is that of the whole run."

title "7. Augment anew in every epoch, or once and store it?"
show "$stoker" compare-lazy "$job" --limit 20000 --rounds 1 --step-time "$step" --disk "$data"

title "8. Is it faster with two threads, or was that luck?"
show "$stoker" bench --rounds 6 --same-output "$job --threads 1" "$job --threads 2"

title "9. Text for speech: words into phonemes, on the fly"
cat >"$data/speech.txt" <<END
Dr. Smith paid \$3.50 for 2 cafés.
The aardvark, the activationist and NASA agree.
END
show "$stoker" g2p --quiet --format lines <"$data/speech.txt"
show "$stoker" run --quiet -e "text(\"$data/speech.txt\") | g2p(text) | batch(2, pad=true) | print"

title "10. The same pipeline in Python"
python=.venv-demo/bin/python
if [ -e build/python/stoker/_core.abi3.so ] && "$python" -c 'import numpy' 2>/dev/null; then
    cat >"$data/loop.py" <<END
import stoker

loader = stoker.load("$job").loader()    # format="torch", "jax", "tensorflow" as well
for batch in loader:
    pass                                 # a training step
print({name: (array.dtype.name, array.shape) for name, array in batch.items()})
print(loader.stats()["samples"], "samples; a state to go on from:", loader.state_dict())
END
    show cat "$data/loop.py"
    echo
    PYTHONPATH=build/python show "$python" "$data/loop.py"
else
    echo "(left out: Python.h or NumPy is missing)"
fi

title "What you saw"
cat <<END
  - The same work, in the same program: what differs is who waits for whom.
  - A trace of every run, and a verdict from it.
  - Output that depends on data and seed alone: not on threads, not on an interrupt.
  - Whether to store augmented samples, answered by a measurement.
  - A comparison in turns, with an interval and a verdict that says when it cannot tell.
  - Words as phonemes, from a model inside the library: as text, or as padded batches of numbers.
  - The same pipeline as a loop in Python, over arrays that share the memory of the batch.
To look at it, open https://ui.perfetto.dev in a browser and drop this file on it
(nothing is uploaded):
  $data/demo.pftrace
Next: docs/guide/getting-started.md, or change $job and run it again.
END
