"""Everything of Stoker that writes files: how it is run, and how to tell what it wrote."""
import gzip
import hashlib
import json
import os
import subprocess
import struct

OLD, NEW = "range(600)", "range(3600) | skip(600)"


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Writer:
    """
    A command that writes into the directory "out", where only it writes.

    command(new) gives its arguments; `new` is False for what lies there before. check(stoker, out) says what is there: "" for
    nothing, else a text that stands for the content, the same for the same content; it raises for what is not whole.
    """

    name = ""
    replaces = True  # what lies there before is replaced; else the command wants a free place
    grows = False  # the file may be there in part: it is kept as far as it came

    def prepare(self, folder, stoker):
        """Makes the input."""

    def command(self, new):
        raise NotImplementedError

    def check(self, stoker, out):
        """The bytes of all that can be seen."""
        found = {}
        for top, folders, files in os.walk(out):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in files:
                if not name.startswith("."):
                    path = os.path.join(top, name)
                    with open(path, "rb") as data:
                        found[os.path.relpath(path, out)] = sha(self.content(data.read(), name))
        return json.dumps(found, sort_keys=True) if found else ""

    def content(self, data, name):
        return data


def run_text(text, *options):
    return ["run", "-q", "--threads", "1", "--no-index-cache", *options, "-e", text]


class Sink(Writer):
    def __init__(self, name, sink, source=None):
        self.name, self.sink, self.source = name, sink, source

    def command(self, new):
        return run_text(f"{(self.source or (OLD, NEW))[new]} | batch(50) | {self.sink}")


class Hdf5(Sink):
    def check(self, stoker, out):
        path = os.path.join(out, "o.h5")
        if not os.path.exists(path):
            return ""
        try:
            import h5py
        except ImportError:
            return super().check(stoker, out)
        with h5py.File(path, "r") as data:  # by another reader; the bytes of a file may differ
            return json.dumps({name: data[name][:].tolist() for name in data})


class Pictures(Writer):
    """Sinks of pictures, from a folder of them."""

    def __init__(self, name, sink, replaces):
        self.name, self.sink, self.replaces = name, sink, replaces

    def prepare(self, folder, stoker):
        import zlib

        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        for i in range(60):
            place = os.path.join(folder, "pictures", "ab"[i % 2])
            os.makedirs(place, exist_ok=True)
            rows = b"".join(b"\0" + bytes((x * y * (i + 1)) & 255 for x in range(24 * 3)) for y in range(24))
            with open(os.path.join(place, f"{i:03}.png"), "wb") as out:
                out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 24, 24, 8, 2, 0, 0, 0)) +
                          chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

    def command(self, new):
        return run_text(f'image_folder("pictures") | {"skip(4)" if new else "take(40)"} | {self.sink}')


class Checkpoint(Writer):
    """Of a run that goes on and on; a run that takes it up must go on where it was."""

    name = "checkpoint"
    replaces = False

    def command(self, new):
        return run_text("range(100000) | batch(10)", "--steps", "300", "--checkpoint", "out/run.ck", "--checkpoint-every", "1")

    def check(self, stoker, out):
        if not os.path.exists(os.path.join(out, "run.ck")):
            return ""
        done = subprocess.run([stoker, *run_text("range(100000) | batch(10) | print", "--steps", "1", "--resume", "out/run.ck")],
                              capture_output=True, cwd=os.path.dirname(out))
        first = json.loads(done.stdout.splitlines()[0])["value"] if done.returncode == 0 else None
        if first is None or first % 10:
            raise AssertionError(f"the checkpoint cannot be taken up: {done}")
        return "taken up"


class Cache(Writer):
    """A cache in a file: what is read with it is what is read without."""

    name = "cache"
    replaces = False

    def command(self, new):
        return run_text('range(3000) | cache("out/c.bin") | batch(50)')

    def check(self, stoker, out):
        digests = [subprocess.run([stoker, *run_text(text, "--digest")], capture_output=True, cwd=os.path.dirname(out)).stdout
                   for text in ('range(3000) | cache("out/c.bin") | batch(50)', "range(3000) | batch(50)")]
        if digests[0] != digests[1]:
            raise AssertionError(f"with the cache {digests[0]}, without {digests[1]}")
        return "right"


class IndexCache(Writer):
    name = "index cache"
    replaces = False
    text = 'tfrecord("in-*.tfrecord") | batch(50)'

    def prepare(self, folder, stoker):
        for i in range(3):
            subprocess.run([stoker, *run_text(f'range(500) | batch(50) | write_tfrecord("in-{i}.tfrecord")')], cwd=folder, check=True)

    def command(self, new):
        return ["run", "-q", "--threads", "1", "--cache-dir", "out", "-e", self.text]

    def check(self, stoker, out):
        folder = os.path.dirname(out)
        runs = [subprocess.run([stoker, "run", "-q", "--digest", *options, "-e", self.text], capture_output=True, cwd=folder).stdout
                for options in (["--cache-dir", "out"], ["--no-index-cache"])]
        if runs[0] != runs[1]:
            raise AssertionError(f"with the index {runs[0]}, without {runs[1]}")
        return "right"


class Trace(Writer):
    grows = True
    replaces = False

    def __init__(self, name, file, *options):
        self.name, self.file, self.options = name, file, options

    def command(self, new):
        return run_text("range(1000000) | batch(50)", "--steps", "4000", "--step-time", "20us", "--trace", "out/" + self.file,
                        *self.options)

    def check(self, stoker, out):
        path = os.path.join(out, self.file)
        if not os.path.exists(path) or os.path.getsize(path) == 0:
            return ""
        done = subprocess.run([stoker, "top", "--no-cache", path], capture_output=True, text=True)
        # One without any event yet is no trace; it is told so, and by nothing else.
        if done.returncode and "no event" not in done.stderr and "without any event" not in done.stderr:
            raise AssertionError(f"the trace does not open: {done}")
        return "opens"


class OfTrace(Writer):
    """Commands that make something of a trace."""

    def __init__(self, name, arguments, replaces=True):
        self.name, self.arguments, self.replaces = name, arguments, replaces

    def prepare(self, folder, stoker):
        for name, count in (("old", 300), ("new", 900)):
            events = [{"ph": "X", "name": f"work {i % 7}", "pid": 1, "tid": 1, "ts": 10 * i, "dur": 8} for i in range(count)]
            with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as out:
                json.dump({"traceEvents": events}, out)

    def command(self, new):
        return [word.replace("TRACE", "new.json" if new else "old.json") for word in self.arguments]

    def content(self, data, name):
        return gzip.decompress(data) if name.endswith(".gz") else data


class TraceCache(OfTrace):
    def check(self, stoker, out):
        runs = [subprocess.run([stoker, "top", "new.json", *options], capture_output=True, cwd=os.path.dirname(out)).stdout
                for options in (["--cache-dir", "out"], ["--no-cache"])]
        if runs[0] != runs[1]:
            raise AssertionError("another result with the cache of traces")
        return "right"


class BenchLog(Writer):
    """Rows are added, so what is there has one row or two."""

    name = "bench log"
    replaces = False

    def command(self, new):
        return ["bench", "-q", "--rounds", "6", "--warmup", "0", "--log", "out/PERF.md", "-m", "row", "true", "true "]

    def check(self, stoker, out):
        if not os.path.exists(os.path.join(out, "PERF.md")):
            return ""
        done = subprocess.run([stoker, "bench", "history", "out/PERF.md"], capture_output=True, text=True, cwd=os.path.dirname(out))
        if done.returncode:
            raise AssertionError(f"the log cannot be read: {done.stderr}")
        return "read"


class G2p(Writer):
    name = "g2p output"

    def prepare(self, folder, stoker):
        for name, words in (("old", "seven old cats\n"), ("new", "nine new dogs sing\n")):
            with open(os.path.join(folder, name + ".txt"), "w", encoding="utf-8") as out:
                out.write(words * 2000)

    def command(self, new):
        return ["g2p", "-q", "-o", "out/words.txt"]

    def input(self, new):
        return "new.txt" if new else "old.txt"


class Quarantine(Writer):
    name = "quarantine list"
    grows = True

    def prepare(self, folder, stoker):
        path = os.path.join(folder, "bad.tfrecord")
        subprocess.run([stoker, *run_text('range(2000) | batch(50) | write_tfrecord("bad.tfrecord")')], cwd=folder, check=True)
        with open(path, "r+b") as data:
            bad = bytearray(data.read())
            size = len(bad) // 2000
            for i in range(0, 2000, 3):
                bad[i * size + 14] ^= 0xFF  # in the data, not in its length
            data.seek(0)
            data.write(bad)

    def command(self, new):
        return run_text('tfrecord("bad.tfrecord") | batch(50)', "--on-error", "quarantine=out/bad.jsonl")

    def check(self, stoker, out):
        path = os.path.join(out, "bad.jsonl")
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as lines:
            text = lines.read()
        whole = text[: text.rfind("\n") + 1]
        records = [json.loads(line)["record"] for line in whole.splitlines()]
        if len(set(records)) != len(records):
            raise AssertionError("a record is listed twice")
        return "list"


def writers():
    return [
        Sink("write_tfrecord", 'write_tfrecord("out/o.tfrecord")'),
        Sink("write_tfrecord, 4 shards", 'write_tfrecord("out/part-%05d", shards=4)'),
        Sink("write_webdataset, 4 shards", 'write_webdataset("out/a-%05d.tar", shards=4)',
             ("range(300)", "range(1500) | skip(300)")),
        Hdf5("write_hdf5", 'write_hdf5("out/o.h5")'),
        Pictures("write_image_folder", 'write_image_folder("out/set")', False),
        Pictures("write_sheet", 'decode_image("image") | batch(8) | write_sheet("out/sheet.png")', True),
        Checkpoint(),
        Cache(),
        IndexCache(),
        Trace("trace", "t.pftrace"),
        Trace("trace, JSON", "t.json"),
        Trace("trace, last part", "t.pftrace", "--trace-last", "1M"),
        TraceCache("trace cache", ["top", "TRACE", "--cache-dir", "out"], False),
        OfTrace("export", ["export", "-q", "--no-cache", "--to", "csv", "TRACE", "out/set"], False),
        OfTrace("convert", ["convert", "-q", "--no-cache", "TRACE", "-o", "out/t.pftrace"]),
        OfTrace("convert, gzip", ["convert", "-q", "--no-cache", "TRACE", "-o", "out/t.json.gz"]),
        OfTrace("convert, SQLite", ["convert", "-q", "--no-cache", "TRACE", "-o", "out/t.sqlite"]),
        BenchLog(),
        G2p(),
        Quarantine(),
    ]
