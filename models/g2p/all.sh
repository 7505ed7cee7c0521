#!/bin/sh
# Trains the model from start to end on one GPU: teachers side by side, then the made-up words, then the student.
#   all.sh FOLDER WORK      FOLDER: cmudict.dict, g014b2b.train, g014b2b.words; WORK: for everything made on the way
set -e
here=$(dirname "$0")
folder=$1 work=$2
python=${PYTHON:-python3}
teacher_seconds=${TEACHER_SECONDS:-320} student_seconds=${STUDENT_SECONDS:-700}
mkdir -p "$work"
[ -f "$work/data.npz" ] || "$python" "$here/data.py" "$folder" "$work/data.npz"
n=0
for kind in lstm lstm lstm lstm attention attention attention; do
    n=$((n + 1))
    "$python" "$here/train.py" teacher "$work/data.npz" "$work/teacher$n.pt" --kind $kind --seed $n \
        --seconds "$teacher_seconds" &
done
wait
"$python" "$here/train.py" label "$work/data.npz" "$work/made-up.pt" "$work"/teacher?.pt --count "${COUNT:-5000000}"
[ -z "$ONLY_TEACHERS" ] || exit 0
"$python" "$here/train.py" student "$work/data.npz" "$work/student.pt" "$work/made-up.pt" --pairs 64 --batch 3072 \
    --seconds "$student_seconds"
"$python" "$here/train.py" test "$work/data.npz" "$work/student.pt"
"$python" "$here/train.py" export "$work/data.npz" "$work/student.pt" "$work/en_us.npz" --classes 96
