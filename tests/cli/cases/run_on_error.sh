# A bit flipped in the data of record 2, seen by each policy.
python3 - "$TESTDATA/tf/example.tfrecord" <<END
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
at = 0
for record in range(3):
    size = struct.unpack_from("<Q", data, at)[0]
    if record == 2:
        data[at + 12 + size // 2] ^= 1
    at += 12 + size + 4
open("bad.tfrecord", "wb").write(data)
END
p='tfrecord("bad.tfrecord") | parse(label=int64) | batch(8)'
"$STOKER" run -q -e "$p"
echo "stop: exit $?"
"$STOKER" run -q -e "$p" --on-error skip --json >out
echo "skip: exit $?"
python3 -c 'import json; x = json.load(open("out")); print(x["samples"], x["skipped"], x["quarantined"])'
"$STOKER" run -e "$p" --on-error quarantine=list.json 2>err
echo "quarantine: exit $?"
grep -o 'left out: .*' err
python3 -c 'import json; [print(x["file"], x["record"]) for x in map(json.loads, open("list.json"))]'
"$STOKER" inspect --verify bad.tfrecord | grep -A1 '^  bad'
