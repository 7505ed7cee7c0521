#!/usr/bin/env python3
"""Sets of files that sinks publish: whole after a kill at any moment, checked by readers that are not ours, and gone on with.

Usage: python3 tests/python/test_sets.py BUILD_DIR
Standard library only. STOKER_TORTURE=1 kills 300 times where it is 20 otherwise. Prints "N passed, N failed".
"""
import glob
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time

import runlib

KILLS = 300 if os.environ.get("STOKER_TORTURE") == "1" else 20
OLD = 'range(3000) | skip(1000) | batch(50) | write_%s("%s", shards=11%s)'
NEW = 'range(4000) | batch(50) | write_%s("%s", shards=16%s)'
KINDS = {"tfrecord": ("part-%05d", ""), "webdataset": ("part-%05d.tar", ', value="txt"')}


def command(program, pipeline, *more):
    return [program, "run", "--quiet", *more, "-e", pipeline]


def run(program, directory, pipeline, *more, status=0):
    done = subprocess.run(command(program, pipeline, *more), cwd=directory, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == status, "exit status %d for %s: %s" % (done.returncode, pipeline, done.stderr)
    return done.stdout, done.stderr


def inspect(program, directory, *more, status=0):
    done = subprocess.run([program, "inspect", *more], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == status, "exit status %d of inspect: %s %s" % (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def records(path):
    """The records of a TFRecord file, by its framing alone."""
    found = []
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        size = struct.unpack_from("<Q", data, at)[0]
        assert at + 16 + size <= len(data), "%s is cut off" % path
        found.append(data[at + 12:at + 12 + size])
        at += 16 + size
    return found


def samples(path):
    """How many samples a file has, for another program."""
    if not path.endswith(".tar"):
        return len(records(path))
    with tarfile.open(path) as tar:
        return len(tar.getnames())


def contents(directory):
    """Files by name; what is hidden is not looked at, as by any other program."""
    found = {}
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        if not name.startswith("."):
            with open(os.path.join(directory, name), "rb") as file:
                found[name] = file.read()
    return found


def hidden(directory):
    return sorted(name for name in os.listdir(directory) if name.startswith("."))


def kill_at(arguments, directory, seconds):
    process = subprocess.Popen(arguments, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def duration(arguments, directory):
    began = time.perf_counter()
    subprocess.run(arguments, cwd=directory, stdin=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def moment(whole):
    """Anywhere in the run, and more often near its end, where files get their names."""
    return random.uniform(0, whole * 1.1) if random.random() < 0.4 else random.uniform(whole * 0.6, whole * 1.2)


def torture(program, directory, kind, alone):
    """Kills a writer of 16 files over an older set of 11 with other contents; what is there then is one of the two."""
    name, more = KINDS[kind]
    old, new = (text % (kind, "out/" + name, more) for text in (OLD, NEW))
    out = os.path.join(directory, "out")
    wanted = []
    for text in (old, new):
        shutil.rmtree(out, ignore_errors=True)
        run(program, directory, text)
        wanted.append(contents(out))
    assert sum(samples(path) for path in glob.glob(os.path.join(out, "part-*"))) == 4000
    shutil.rmtree(out)
    run(program, directory, old)
    if not alone:
        with open(os.path.join(out, "notes.txt"), "wb") as file:
            file.write(b"mine")
        for one in wanted:
            one["notes.txt"] = b"mine"
    whole = duration(command(program, new), directory)
    seen = [0, 0]
    for _ in range(KILLS // 2):
        run(program, directory, old)
        assert contents(out) == wanted[0]
        kill_at(command(program, new), directory, moment(whole))
        if not alone:
            inspect(program, directory, "out/part-*")
        found = contents(out)
        assert found in wanted, "a mix of old and new: %s" % sorted(found)
        seen[wanted.index(found)] += 1
        assert inspect(program, directory, "--verify", "out/%s.manifest.json" % name.replace("-%05d", ""))
    run(program, directory, old)
    assert hidden(out) == [] and hidden(directory) == [], "leftovers: %s %s" % (hidden(out), hidden(directory))
    return seen


def test_kill_leaves_the_old_set_or_the_new_one(program, directory):
    for kind in KINDS:
        for alone in (True, False):
            where = os.path.join(directory, "%s-%s" % (kind, alone))
            os.mkdir(where)
            print("%s, %s: old %d, new %d" % (kind, "alone" if alone else "among others", *torture(program, where, kind, alone)))


def test_a_killed_writer_leaves_nothing_that_is_read(program, directory):
    """Killed, then written again: readers see what the second run wrote."""
    text = NEW % ("tfrecord", "out/part-%05d", "")
    whole = duration(command(program, text), directory)
    for _ in range(max(KILLS // 4, 5)):
        shutil.rmtree(os.path.join(directory, "out"))
        kill_at(command(program, text), directory, moment(whole))
        run(program, directory, text)
        paths = glob.glob(os.path.join(directory, "out/part-*"))
        assert sum(len(records(path)) for path in paths) == 4000, paths
        stdout, _ = run(program, directory, 'tfrecord("out/part-*") | parse(value=int64) | print')
        assert sorted(json.loads(line)["value"] for line in stdout.splitlines()) == list(range(4000))
        assert hidden(directory) == []


def test_fewer_files_leave_no_old_ones(program, directory):
    for others in (False, True):
        for kind, (name, more) in KINDS.items():
            out = os.path.join(directory, "%s-%s" % (kind, others))
            for count in (8, 4, 5):
                run(program, directory, 'range(40) | write_%s("%s/%s", shards=%d%s)' % (kind, out, name, count, more))
                if others:
                    open(os.path.join(out, "notes.txt"), "w").close()
                paths = glob.glob(os.path.join(out, "part-*"))
                assert len(paths) == count and sum(samples(path) for path in paths) == 40, paths


def test_the_manifest_tells_what_is_there(program, directory):
    xxhash = shutil.which("xxh128sum")
    for kind, (name, more) in KINDS.items():
        run(program, directory, 'range(10) | write_%s("%s/%s", shards=3%s)' % (kind, kind, name, more))
        path = os.path.join(directory, kind, name.replace("-%05d", "") + ".manifest.json")
        with open(path) as file:
            manifest = json.load(file)
        assert manifest["stoker_manifest"] == 1 and manifest["pattern"] == name and manifest["rows"] == 10
        there = set(os.listdir(os.path.dirname(path))) - {os.path.basename(path)}
        assert {file["name"] for file in manifest["files"]} == there
        for file in manifest["files"]:
            one = os.path.join(directory, kind, file["name"])
            assert file["bytes"] == os.path.getsize(one)
            assert file["rows"] == (0 if one.endswith(".json") else samples(one))
            if xxhash:
                found = subprocess.run([xxhash, one], capture_output=True, text=True, check=True).stdout.split()[0]
                assert found == file["xxh3_128"]


def test_readers_notice_what_changed_since(program, directory):
    read = 'tfrecord("out/part-*") | batch(4)'
    path = os.path.join(directory, "out/part-00001")

    def fresh():
        shutil.rmtree(os.path.join(directory, "out"), ignore_errors=True)
        run(program, directory, 'range(30) | write_tfrecord("out/part-%05d", shards=3)')

    def told(*words):
        _, message = run(program, directory, read, status=1)
        assert all(word in message for word in words), message
        assert words[0] in inspect(program, directory, "--verify", "out/part-*", status=1)

    fresh()
    run(program, directory, read)
    with open(path, "ab") as file:
        with open(os.path.join(directory, "out/part-00000"), "rb") as other:
            file.write(other.read())  # sound records
    told("part-00001", "bytes", "part.manifest.json")
    fresh()
    os.unlink(path)
    told("part-00001", "part.manifest.json", "missing")
    run(program, directory, 'tfrecord("out/part-00000") | batch(4)')  # by its name it can be read alone
    fresh()
    shutil.copy(path, os.path.join(directory, "out/part-00003"))
    told("part-00003", "part.manifest.json")
    os.unlink(os.path.join(directory, "out/part.manifest.json"))  # without one, all is read as ever
    run(program, directory, read)
    fresh()
    with open(path, "r+b") as file:
        file.seek(20)
        file.write(b"\xff")
    assert "digest" in inspect(program, directory, "--verify", "out/part.manifest.json", status=1)


def test_a_set_that_is_replaced_while_it_is_read_is_noticed(program, directory):
    """Plain files by number, compressed ones as a stream: the rest must not come from the new set."""
    for more in ("", ", compression=gzip"):
        write = 'range(%d) | batch(10) | write_tfrecord("out/part-%%05d", shards=4' + more + ")"
        run(program, directory, write % 4000)
        read = subprocess.Popen(command(program, 'tfrecord("out/part-*") | batch(20) | prefetch(1) | print', "--step-time", "20ms"),
                                cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert read.stdout.readline()
        run(program, directory, write % 2000)
        rest, message = read.communicate(timeout=60)
        # Where all files were open already, the old set is read to its end.
        whole_old = read.returncode == 0 and 1 + rest.count("\n") == 4000
        assert whole_old or (read.returncode == 1 and any(word in message for word in ("replaced", "changed", "out/part-"))), message


def test_files_of_others_are_never_removed(program, directory):
    out = os.path.join(directory, "out")
    os.mkdir(out)
    for name in ("part-00003", "part-00010", "keep"):
        with open(os.path.join(out, name), "w") as file:
            file.write(name)
    before = contents(out)
    _, message = run(program, directory, 'range(9) | write_tfrecord("out/part-%05d", shards=2)', status=1)
    assert "part-000" in message and "remove it" in message, message
    assert contents(out) == before and hidden(out) == []
    for name in ("part-00003", "part-00010"):
        os.unlink(os.path.join(out, name))
    run(program, directory, 'range(9) | write_tfrecord("out/part-%05d", shards=2)')
    assert contents(out)["keep"] == b"keep"
    _, message = run(program, directory, 'range(9) | write_tfrecord("out/part-%03d", shards=2)', status=1)
    assert "part.manifest.json" in message, message


def test_two_ranks_in_one_directory(program, directory):
    for turn in range(max(KILLS // 4, 5)):
        shutil.rmtree(os.path.join(directory, "out"), ignore_errors=True)
        runs = [subprocess.Popen(command(program, 'range(2000) | shard | batch(10) | write_tfrecord("out/r%d-%%03d", shards=3)' % rank,
                                         "--rank", str(rank), "--world", "2"), cwd=directory, stdin=subprocess.DEVNULL)
                for rank in range(2)]
        assert [one.wait(timeout=60) for one in runs] == [0, 0], turn
        for rank in range(2):
            paths = glob.glob(os.path.join(directory, "out/r%d-*" % rank))
            assert len(paths) == 3 and sum(len(records(path)) for path in paths) == 1000, paths
        stdout, _ = run(program, directory, 'tfrecord("out/r*") | parse(value=int64) | print')
        assert sorted(json.loads(line)["value"] for line in stdout.splitlines()) == list(range(2000))
        assert hidden(directory) == [] and hidden(os.path.join(directory, "out")) == []


def conversion(kind, out):
    name, more = KINDS[kind]
    return 'range(5000) | shuffle(seed=3) | batch(7) | write_%s("%s/%s", shards=5%s)' % (kind, out, name, more)


def test_an_interrupted_conversion_goes_on(program, directory):
    for kind in KINDS:
        run(program, directory, conversion(kind, kind + "-want"))
        wanted = contents(os.path.join(directory, kind + "-want"))
        for way in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            out, point = "%s-%d" % (kind, way), os.path.join(directory, "%s-%d.ck" % (kind, way))
            more = ["--checkpoint", point, "--checkpoint-every", "20", "--step-time", "300us"]
            process = subprocess.Popen(command(program, conversion(kind, out), *more), cwd=directory, stdin=subprocess.DEVNULL)
            while not os.path.exists(point):
                time.sleep(0.005)
            time.sleep(random.uniform(0, 0.1))
            process.send_signal(way)
            process.wait(timeout=60)
            assert not os.path.exists(os.path.join(directory, out)), "published by half"
            run(program, directory, conversion(kind, out), "--resume", point, "--checkpoint", point)
            assert contents(os.path.join(directory, out)) == wanted
            assert not [name for name in hidden(directory) if out in name]
            # Again, as a job that is started whatever was before: nothing to do.
            run(program, directory, conversion(kind, out), "--resume", point, "--checkpoint", point)
            assert contents(os.path.join(directory, out)) == wanted


def test_a_conversion_killed_again_and_again_is_done_in_the_end(program, directory):
    text, point = conversion("tfrecord", "out"), os.path.join(directory, "c.ck")
    run(program, directory, conversion("tfrecord", "want"))
    wanted, out = contents(os.path.join(directory, "want")), os.path.join(directory, "out")
    os.mkdir(out)
    with open(os.path.join(out, "notes.txt"), "wb") as file:
        file.write(b"mine")
    wanted["notes.txt"] = b"mine"
    for turn in range(1000):
        more = ["--checkpoint", point, "--checkpoint-every", "40", "--step-time", "500us"] + (["--resume", point] if os.path.exists(point) else [])
        process = subprocess.Popen(command(program, text, *more), cwd=directory, stdin=subprocess.DEVNULL)
        try:
            status = process.wait(timeout=random.uniform(0.02, 0.3) + turn * 0.01)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            continue
        assert status == 0, "turn %d ended with %d" % (turn, status)
        break
    assert contents(out) == wanted and hidden(directory) == [] and hidden(out) == []
    assert turn > 0, "it was never killed"


def test_steps_with_a_checkpoint_publish_nothing_yet(program, directory):
    text, point = conversion("tfrecord", "out"), "c.ck"
    run(program, directory, conversion("tfrecord", "want"))
    run(program, directory, text, "--steps", "4", "--checkpoint", point)
    assert not os.path.exists(os.path.join(directory, "out")) and len(hidden(directory)) == 1
    run(program, directory, text, "--steps", "4", "--checkpoint", point, "--resume", point)
    run(program, directory, text, "--resume", point)
    assert contents(os.path.join(directory, "out")) == contents(os.path.join(directory, "want"))
    assert hidden(directory) == []


def test_what_cannot_be_gone_on_with_is_refused(program, directory):
    text, point = conversion("tfrecord", "out"), "c.ck"
    run(program, directory, text, "--steps", "4", "--checkpoint", point)
    kept = os.path.join(directory, hidden(directory)[0])
    shutil.copy(os.path.join(directory, point), os.path.join(directory, "first.ck"))
    with open(os.path.join(kept, "set/part-00002"), "r+b") as file:
        file.write(b"?")
    _, message = run(program, directory, text, "--resume", point, status=4)
    assert "is not as it was" in message, message
    run(program, directory, text, "--steps", "6", "--checkpoint", point)  # a fresh run: the other checkpoint's files are gone
    assert "not that of this checkpoint" in run(program, directory, text, "--resume", "first.ck", status=4)[1]
    shutil.rmtree(os.path.join(directory, hidden(directory)[0]))
    assert "is gone" in run(program, directory, text, "--resume", point, status=4)[1]
    run(program, directory, "range(5000) | shuffle(seed=3) | batch(7) | print", "--steps", "2", "--checkpoint", "p.ck")
    assert "would be missing" in run(program, directory, text, "--resume", "p.ck", status=4)[1]
    for sink in ('write_hdf5("a.h5")', 'write_tfrecord("a.gz", compression=gzip)', 'write_tfrecord("a.z", compression=zlib)'):
        for more in (("--checkpoint", "x.ck"), ("--resume", point)):
            _, message = run(program, directory, "range(5000) | shuffle(seed=3) | batch(7) | " + sink, *more, status=2)
            assert "--checkpoint" in message, message
    assert not os.path.exists(os.path.join(directory, "x.ck"))


def test_names_with_wildcards_are_refused(program, directory):
    for name in ("g-*.gz", "g?", "g[1]", "g{1,2}", "g}"):
        for sink in ('write_tfrecord("%s")', 'write_webdataset("%s", value="txt")', 'write_hdf5("%s")', 'write_tfrecord("new-%s/x")'):
            _, message = run(program, directory, "range(5) | " + sink % name, status=2)
            assert "wildcard" in message, message
    assert os.listdir(directory) == []
    os.mkdir(os.path.join(directory, "[2024]"))
    run(program, directory, 'range(5) | write_tfrecord("[2024]/x")')


def test_a_full_disk_leaves_the_old_set(program, directory):
    small = os.path.join(directory, "small")
    os.mkdir(small)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", small], check=False,
                                           capture_output=True).returncode != 0:
        print("skipped: a full disk wants root and mount")
        return
    try:
        for out in ("small/out/part-%d", "small/part-%d"):
            where = os.path.join(directory, os.path.dirname(out))
            run(program, directory, 'range(300) | write_tfrecord("%s", shards=4)' % out)
            before = contents(where) if "out" in out else None
            run(program, directory, 'range(100000) | batch(100) | write_tfrecord("%s", shards=4)' % out, status=1)
            assert before is None or contents(where) == before
            assert hidden(where) == [] and hidden(small) == []
            shutil.rmtree(where) if "out" in out else None
    finally:
        subprocess.run(["umount", small], check=True)


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, *where: test(*where)))
