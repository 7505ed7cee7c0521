"""Records the labelled profiles, of which tests/data/verdicts/README.md tells.

record.py ENVIRONMENT OUT-DIRECTORY [NAME-PATTERN...]
"""
import fcntl
import fnmatch
import getpass
import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time

import cases

LOOPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "loops")
# Paths get into profiles: this one tells nothing about the machine. Two recorders need two of them.
PLACE = os.environ.get("STOKER_TRACES_PLACE", "/tmp/train")
MOST_BYTES, TRIES, SPY_SECONDS = 300000, 6, 8
FRAMEWORKS = {"tfdata": "tensorflow", "keras_fit": "tensorflow", "jax_loop": "jax"}
PACKAGES = {"torch": "torch", "tensorflow": "tensorflow_cpu", "jax": "jax"}

QUERY = """
import importlib.metadata, json, platform, sys
names = ("torch", "tensorflow_cpu", "jax", "numpy", "py-spy")
versions = dict({name: importlib.metadata.version(name) for name in names}, python=platform.python_version())
print(json.dumps([sys.base_prefix, sys.path, versions]))
"""


class Recorder:
    def __init__(self, environment, directory):
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        shutil.rmtree(PLACE, ignore_errors=True)
        os.makedirs(PLACE)
        os.symlink(os.path.realpath(environment), PLACE + "/env")
        self.python, self.spy = PLACE + "/env/bin/python", PLACE + "/env/bin/py-spy"
        self.prefix, path, self.versions = json.loads(subprocess.check_output([self.python, "-c", QUERY]))
        self.packages = [where for where in path if where.endswith("site-packages")]
        self.environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", OMP_NUM_THREADS="1", JAX_PLATFORMS="cpu",
                                PYTHONDONTWRITEBYTECODE="1", CUDA_VISIBLE_DEVICES="", TF_USE_LEGACY_KERAS="0")

    def prepare(self, case):
        for name in os.listdir(PLACE):
            if name != "env":
                path = os.path.join(PLACE, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        for name in ("meter.py", "trainer.py"):
            shutil.copy(os.path.join(LOOPS, name), PLACE)
        shutil.copy(os.path.join(LOOPS, case["loop"] + ".py"), PLACE + "/train.py")

    def start(self, command, **more):
        return subprocess.Popen(command, cwd=PLACE, env=self.environment, stdout=subprocess.PIPE,
                                stderr=open(PLACE + "/errors", "w"), text=True, **more)

    def train(self, case):
        """Runs a loop that profiles itself: (names of files in PLACE, steps)."""
        framework = FRAMEWORKS.get(case["loop"], "torch")
        out = "trace.json" if framework == "torch" else "trace.xplane.pb"
        names = ["rank%d.json" % rank for rank in range(case["ranks"])] if "ranks" in case else [out]
        command = [self.python, "train.py", "--out", "rankRANK.json" if "ranks" in case else out, *case["options"]]
        if case.get("spy") == "beside":
            command = [self.spy, "record", "--subprocesses", "--rate", "30", "--format", "chrometrace",
                       "-o", "spy.json", "--", *command]
            names.append("spy.json")
        process = self.start(command)
        output, _ = process.communicate(timeout=300)
        lines = [line for line in output.splitlines() if line.startswith("[[")]
        assert process.returncode == 0 and len(lines) == case.get("ranks", 1), open(PLACE + "/errors").read()[-3000:]
        return names, [step for line in lines for step in json.loads(line)]

    def look_on(self, case):
        """py-spy on a loop that runs already; the steps are those under its eyes."""
        process = self.start([self.python, "train.py", *case["options"]])
        line = process.stdout.readline()
        assert line == "ready\n", open(PLACE + "/errors").read()[-3000:]
        began = time.perf_counter()
        command = [self.spy, "record", "--format", "chrometrace", "-o", "spy.json", "--duration", str(SPY_SECONDS)]
        subprocess.run([*command, "--pid", str(process.pid)], cwd=PLACE, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        ended = time.perf_counter()
        open(PLACE + "/stop", "w").close()
        steps = json.loads(process.stdout.readlines()[-1])
        assert process.wait() == 0
        return ["spy.json"], [s for s in steps if s[0] >= began and s[0] + s[2] <= ended]

    def clean(self, data, name):
        """Without the machine's name and where its Python lies."""
        if name.endswith(".json"):
            data = re.sub(rb'("host_name": )"[^"]*"', rb'\1"host"', data)
            for where in self.packages:
                data = data.replace(where.encode(), b"/usr/lib/python3/site-packages")
            data = data.replace(self.prefix.encode(), b"/usr")
        else:
            data = without_host_names(data)
        for secret in (self.prefix, *self.packages, os.path.realpath(PLACE + "/env"), os.path.expanduser("~/"),
                       os.getcwd() + "/", '"%s"' % socket.gethostname()):
            assert secret.encode() not in data, (name, secret)
        if len(getpass.getuser()) > 4:
            assert getpass.getuser().encode() not in data, name
        return data

    def keep(self, case, names):
        kept = {}
        for name in names:
            with open(os.path.join(PLACE, name), "rb") as file:
                data = self.clean(file.read(), name)
            stem, _, end = name.partition(".")
            more = "" if stem == "trace" or names == ["spy.json"] else "." + stem
            packed = gzip.compress(data, 9, mtime=0)
            assert len(packed) <= MOST_BYTES, (case["name"], name, len(packed))
            kept["%s%s.%s.gz" % (case["name"], more, end)] = packed
        for name, packed in kept.items():
            with open(os.path.join(self.directory, name), "wb") as file:
                file.write(packed)
        return list(kept)

    def record(self, case):
        """One entry for truth.json, once the machine was quiet enough."""
        for attempt in range(TRIES):
            self.prepare(case)
            names, steps = (self.look_on if case.get("spy") == "alone" else self.train)(case)
            problem = unfit(case, steps)
            if not problem:
                return self.entry(case, self.keep(case, names), steps)
            print("%s: %s; again" % (case["name"], problem), flush=True)
        return None

    def entry(self, case, files, steps):
        framework = FRAMEWORKS.get(case["loop"], "torch")
        tools = {name: self.versions[name] for name in
                 [PACKAGES[framework], "numpy", "python"] + (["py-spy"] if "spy" in case else [])}
        return {"name": case["name"], "files": files, "framework": framework, "tools": tools,
                "command": " ".join([case["loop"] + ".py"] + [repr(o) if " " in o else o for o in case["options"]]),
                "steps": len(steps), "input_percent": round(share_of(steps), 2)}


def labelled(entry, case):
    """What was measured, and what cases.py says about it today."""
    return dict(entry, **{key: case[key] for key in ("group", "verdict", "visible", "stage", "worst_rank", "text")
                          if key in case})


def write_truth(directory, entries):
    """Puts new entries into truth.json; the lock is for another recorder."""
    path = os.path.join(directory, "truth.json")
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        known = {entry["name"]: entry for entry in json.loads(text)["cases"]} if text else {}
        known.update((entry["name"], entry) for entry in entries)
        listed = [labelled(known[c["name"]], c) for c in cases.all_cases() if c["name"] in known]
        file.truncate(0)
        json.dump({"cases": listed}, file, indent=1)
        file.write("\n")


def without_host_names(data):
    """XSpace.hostnames, field 4 of the outermost message, left out."""
    def varint(at):
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at
    kept, at = [], 0
    while at < len(data):
        tag, body = varint(at)
        assert tag & 7 == 2, "a field of XSpace that is not a message or string"
        size, body = varint(body)
        if tag >> 3 != 4:
            kept.append(data[at:body + size])
        at = body + size
    return b"".join(kept)


def share_of(steps):
    return 100 * sum(step[1] for step in steps) / sum(step[2] for step in steps)


def verdict_of(share):
    return cases.BOUND if share >= 20 else cases.SOME if share >= 5 else cases.NOT


def unfit(case, steps):
    """Why a recording tells nothing: the share is too near to a threshold, or one step decides."""
    share = share_of(steps)
    if verdict_of(share) != case["verdict"] or 3.2 < share < 7 or 17.5 < share < 23:
        return "%.1f %% of the time is fetching" % share
    marked = "--marks" in case["options"] if case["loop"] == "jax_loop" else "--no-marks" not in case["options"]
    if not marked or case.get("spy") == "alone":
        # Whoever has to guess the steps may miss one.
        apart = max(abs(share - share_of(steps[:i] + steps[i + 1:])) for i in range(len(steps)))
        if apart > (1.5 if case["visible"] else 4):
            return "%.1f points depend on one step" % apart
    return None


def main():
    environment, directory, *patterns = sys.argv[1:]
    wanted = [c for c in cases.all_cases() if not patterns or any(fnmatch.fnmatch(c["name"], p) for p in patterns)]
    recorder = Recorder(environment, directory)
    failed = []
    for case in wanted:
        entry = recorder.record(case)
        if not entry:
            failed.append(case["name"])
            continue
        print("%-34s %6.2f %%  %s" % (case["name"], entry["input_percent"], case["verdict"]), flush=True)
        write_truth(directory, [entry])
    write_truth(directory, [])
    if failed:
        sys.exit("record.py: too noisy: " + ", ".join(failed))


if __name__ == "__main__":
    main()
