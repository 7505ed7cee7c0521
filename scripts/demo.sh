#!/usr/bin/env bash
# Makes sample data, runs the main job on it and shows what came out: demo.sh, after `make build`.
# STOKER_BUILD is the build directory (build), DEMO_DATA where the files go (demo-data).
set -euo pipefail
cd "$(dirname "$0")/.."

build=${STOKER_BUILD:-build}
data=${DEMO_DATA:-demo-data}
stoker=$build/stoker
bold='' plain=''
if [ -t 1 ]; then
    bold=$(tput bold 2>/dev/null || true) plain=$(tput sgr0 2>/dev/null || true)
fi
# A launcher's rank would make this a part of the whole.
unset RANK WORLD_SIZE OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE SLURM_PROCID SLURM_NTASKS

title() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
show() { # COMMAND...: prints it as one would type it, then runs it
    local word line='$'
    for word in "$@"; do
        case $word in
        *[\ \|\"\(*]*) line+=" '$word'" ;;
        *) line+=" $word" ;;
        esac
    done
    printf '%s\n' "$line"
    "$@"
}

rm -rf "$data"
mkdir -p "$data"
job=$data/train.stoker
sed "s#demo-data/#$data/#; /^#/d" examples/train.stoker > "$job"

title "1. Sample data: 20,000 made-up tf.train.Examples in 8 files"
show "$stoker" run --quiet --plugin "$build/examples/op_blobs.so" \
    -e "blobs(20000) | write_tfrecord(\"$data/blobs-%05d.tfrecord\", shards=8)"
show "$stoker" inspect "$data/blobs-00000.tfrecord"

title "2. The job, and the plan that is made of it"
show cat "$job"
echo
show "$stoker" plan "$job"

title "3. Run it for a trainer whose steps take 2 ms, and record the run"
show "$stoker" run "$job" --step-time 2ms --trace "$data/demo.pftrace"

title "4. One thread or two: the same bytes"
one=$("$stoker" run "$job" --quiet --digest --threads 1)
two=$("$stoker" run "$job" --quiet --digest --threads 2)
printf '$ %s\n%s\n' "$stoker run $job --quiet --digest --threads 1" "$one"
printf '$ %s\n%s\n' "$stoker run $job --quiet --digest --threads 2" "$two"
if [ "$one" != "$two" ]; then
    echo "demo: the digests differ; this is a bug" >&2
    exit 1
fi

title "5. Interrupt it in the middle, go on from the checkpoint"
sed '$a| print' "$job" > "$data/print.stoker"
"$stoker" run "$data/print.stoker" --quiet > "$data/whole.jsonl"
echo "\$ $stoker run $data/print.stoker --checkpoint $data/run.ck --step-time 2ms    # then Ctrl-C"
"$stoker" run "$data/print.stoker" --quiet --checkpoint "$data/run.ck" --step-time 2ms > "$data/first.jsonl" &
pid=$!
while [ ! -s "$data/first.jsonl" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
sleep 0.4
kill -INT "$pid" 2>/dev/null || true
wait "$pid" || true
echo "\$ $stoker run $data/print.stoker --resume $data/run.ck"
"$stoker" run "$data/print.stoker" --quiet --resume "$data/run.ck" > "$data/rest.jsonl"
first=$(wc -l < "$data/first.jsonl") rest=$(wc -l < "$data/rest.jsonl") whole=$(wc -l < "$data/whole.jsonl")
if ! cat "$data/first.jsonl" "$data/rest.jsonl" | cmp -s - "$data/whole.jsonl"; then
    echo "demo: $first samples and the $rest after the interrupt are not the $whole of a whole run; this is a bug" >&2
    exit 1
fi
echo "$first samples before the interrupt and $rest after it: byte for byte the $whole of a whole run"
rm -f "$data"/*.jsonl "$data/print.stoker"

title "What you saw"
cat <<END
  - A shuffled, parsed, batched job over 8 files, planned before any data was read.
  - Its output depends on data and seed alone: not on threads, not on an interrupt.
  - "consumer waited" in part 3 tells whether the input keeps up with the trainer.
To see where the time went, open https://ui.perfetto.dev in a browser and drop this file on it
(nothing is uploaded):
  $data/demo.pftrace
Next: docs/guide/getting-started.md, or change $job and run it again.
END
