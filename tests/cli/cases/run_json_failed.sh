# The object tells of failures too, once the run has begun.
python3 - "$TESTDATA/tf/example.tfrecord" <<END
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[-10] ^= 1
open("bad.tfrecord", "wb").write(data)
END
"$STOKER" run -q -e 'tfrecord("bad.tfrecord") | batch(8)' --json --checkpoint ck >out 2>err
echo "exit $?"
python3 -c 'import json; x = json.load(open("out")); print(x["end"], x["samples"], "CRC" in x["error"], x["checkpoint"])'
