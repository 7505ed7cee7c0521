# More bad records than allowed.
python3 - "$TESTDATA/tf/example.tfrecord" <<END
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
at = 0
while at < len(data):
    size = struct.unpack_from("<Q", data, at)[0]
    data[at + 12] ^= 1
    at += 12 + size + 4
open("bad.tfrecord", "wb").write(data)
END
"$STOKER" run -q -e 'tfrecord("bad.tfrecord") | parse(label=int64) | batch(8)' --on-error skip --max-errors 5
