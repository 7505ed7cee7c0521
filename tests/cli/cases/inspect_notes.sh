# What the proposed line leaves out is named with the reason, and so is what may go wrong with it.
cat >tf.py <<END
import struct
def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
def message(number, data):
    return bytes([number << 3 | 2, len(data)]) + data
def ints(*values):
    return message(3, message(1, bytes(values)))
def text(value):
    return message(1, message(1, value))
def entry(name, value):
    return message(1, message(1, name) + message(2, value))
def steps(*features):
    return b"".join(message(1, x) for x in features)
def write(path, records):
    with open(path, "wb") as file:
        for record in records:
            size = struct.pack("<Q", len(record))
            file.write(size + masked(size) + record + masked(record))
def example(**features):
    return message(1, b"".join(entry(name.encode(), value) for name, value in features.items()))
END
python3 - <<END
from tf import *
write("mixed.tfrecord", [example(label=ints(1), kind=ints(2), empty=b"", schema=ints(4)),
                         example(kind=text(b"x"), box=ints(1, 2, 3, 4)), example(label=ints(3)), b"\xff" * 9])
sequence = message(1, entry(b"id", ints(7))) + message(
    2, entry(b"same", steps(ints(1), ints(2))) + entry(b"varies", steps(ints(1), ints(2, 3, 4))))
write("steps.tfrecord", [sequence, sequence])
write("late.tfrecord", [example(label=ints(1))] * 5 + [example(other=ints(1))])
END
"$STOKER" inspect mixed.tfrecord steps.tfrecord
echo ---- late
"$STOKER" inspect --records 5 late.tfrecord | sed -n '/to read/,$p'
"$STOKER" inspect --records 0 late.tfrecord | sed -n '/to read/,$p'
echo ---- json
"$STOKER" inspect --json mixed.tfrecord steps.tfrecord late.tfrecord nowhere.tfrecord 2>/dev/null | python3 -c 'import json, sys
for x in json.load(sys.stdin): print([x.get(key) for key in ("file", "fields", "left_out", "notes", "error")])'
