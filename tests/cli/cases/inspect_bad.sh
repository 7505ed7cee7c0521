# Damage of several kinds, each told with its place.
python3 - "$TESTDATA/tf/example.tfrecord" <<END
import gzip, struct, sys
data = open(sys.argv[1], "rb").read()
starts, at = [], 0
while at < len(data):
    starts.append(at)
    at += 16 + struct.unpack_from("<Q", data, at)[0]
def flipped(*places):
    copy = bytearray(data)
    for place in places:
        copy[place] ^= 0x40
    return bytes(copy)
open("data.tfrecord", "wb").write(flipped(starts[1] + 14, starts[3] + 14))
open("length.tfrecord", "wb").write(flipped(starts[2]))
open("cut.tfrecord", "wb").write(data[: starts[4] + 20])
open("cut.tfrecord.gz", "wb").write(gzip.compress(data, mtime=0)[:-2000])
open("empty.tfrecord", "wb")
open("text.tfrecord", "wb").write(b"this is no TFRecord file at all\n" * 3)
END
for file in data length cut empty text; do
    "$STOKER" inspect --verify $file.tfrecord | grep -v '^    [a-z/]* *[a-z0-9|]* *[0-9]* *[0-9.]*$' | sed '/to read it/,$d'
    echo "exit ${PIPESTATUS[0]}"
done
"$STOKER" inspect --verify cut.tfrecord.gz >out
echo "exit $?"
grep -c '^    record' out
