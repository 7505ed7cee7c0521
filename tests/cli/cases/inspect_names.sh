# Names from files cannot steer a terminal, and the suggested call quotes them.
python3 - <<END
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
def feature(name, value):
    return message(1, message(1, name) + message(2, message(3, message(1, bytes([value])))))
names = [b"a\x1b[31mb", b"a b", b"a_b", b"9", b'q"q', b"gr\xc3\xbc\xc3\x9fe"]
record = message(1, b"".join(feature(name, 7) for name in names))
size = struct.pack("<Q", len(record))
open("names.tfrecord", "wb").write(size + masked(size) + record + masked(record))
END
"$STOKER" inspect names.tfrecord
