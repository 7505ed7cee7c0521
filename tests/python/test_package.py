#!/usr/bin/env python3
"""The Python package as people get it: test_package.py BUILD_DIR

Builds the wheel, installs it into .venv-package and runs tests/package there with pytest; then tests/package/smoke.py
with every other CPython from 3.10 on that this machine has. Of a build with the address sanitizer it takes the
extension module as it is, and runs the tests that handle memory.
"""

import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-package"
REQUIREMENTS = ROOT / "tests" / "python" / "requirements-package.txt"
MEMORY_TESTS = ["test_batch.py", "test_run.py", "test_map.py", "test_source.py", "test_record.py", "test_trace.py"]
SKIP = 77
COUNT = re.compile(r"(\d+) (passed|failed|error|skipped)")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def call(*command, **more):
    return subprocess.run([str(word) for word in command], check=False, **more)


def environment(build, **more):
    left_out = ("PYTHON", "STOKER_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
    env.update(STOKER_BUILD=str(build), PYTHONDONTWRITEBYTECODE="1", JAX_PLATFORMS="cpu", **more)
    return env


def run_pytest(python, env, tests):
    """Cases that passed, failed and were skipped. Runs where no file of ours could be imported by accident."""
    with tempfile.TemporaryDirectory(prefix="stoker-package-") as directory:
        done = call(
            python,
            "-m",
            "pytest",
            "-q",
            "-rs",
            "--tb=short",
            "-p",
            "no:cacheprovider",
            "-c",
            ROOT / "pyproject.toml",
            "--rootdir",
            ROOT,
            "--basetemp",
            os.path.join(directory, "tests"),
            "--durations=8",
            *tests,
            cwd=directory,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    print(done.stdout, flush=True)
    counts = {"passed": 0, "failed": 0, "error": 0, "skipped": 0}
    for number, word in COUNT.findall(done.stdout.strip().rpartition("\n")[2]):
        counts[word] += int(number)
    failed = counts["failed"] + counts["error"]
    return counts["passed"], failed or int(done.returncode != 0), counts["skipped"]


# ---- the wheel ----


def made_wheel():
    """The wheel and the digest of what is in it."""
    if not (ROOT / ".venv-wheel" / "requirements.txt").exists():
        skip("there is no .venv-wheel; scripts/deps.sh wheel makes it")
    done = call(ROOT / "scripts" / "wheel.sh")
    if done.returncode:
        sys.exit(f"scripts/wheel.sh failed with {done.returncode}")
    (wheel,) = glob.glob(str(ROOT / "dist" / "*.whl"))
    return wheel, hashlib.sha256(pathlib.Path(wheel).read_bytes()).hexdigest()


def install(python, wheel, digest, mark):
    """Puts the wheel into an environment, unless it is there."""
    if mark.exists() and mark.read_text() == digest:
        return
    call(
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-index",
        "--force-reinstall",
        wheel,
        stderr=subprocess.STDOUT,
    ).check_returncode()
    mark.write_text(digest)


def interpreters():
    """One CPython of each version from 3.10 on, but for the one of .venv-package: (version, path)."""
    found = {}
    ask = (
        "import platform, sys, sysconfig; print(platform.python_implementation(), "
        "sysconfig.get_config_var('Py_GIL_DISABLED'), sys.version_info >= (3, 10), *sys.version_info[:3])"
    )
    names = glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3")) + [
        shutil.which("python3") or "",
        "/usr/bin/python3",
    ]
    for path in (VENV / "bin" / "python", *names):
        if not os.access(path, os.X_OK):
            continue
        words = call(path, "-c", ask, stdout=subprocess.PIPE, text=True).stdout.split()
        if words[:3] in (["CPython", "None", "True"], ["CPython", "0", "True"]):
            found.setdefault(".".join(words[3:]), str(path))
    return list(found.items())[1:]


def smoke_environment(version, path):
    """A small environment of that interpreter, with NumPy where it can be had; None: it cannot make one."""
    place = ROOT / "build-wheel" / f"smoke-{version}"
    python = place / "bin" / "python"
    if not (place / "made").exists():
        shutil.rmtree(place, ignore_errors=True)
        if call(path, "-m", "venv", place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            return None, None
        call(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:", "numpy")
        (place / "made").touch()
    return python, place / "wheel"


def run_smoke(build, wheel, digest):
    passed = failed = skipped = 0
    for version, path in interpreters():
        python, mark = smoke_environment(version, path)
        if not python:
            print(f"Python {version}: skipped, {path} cannot make an environment")
            skipped += 1
            continue
        install(python, wheel, digest, mark)
        with tempfile.TemporaryDirectory(prefix="stoker-smoke-") as directory:
            done = call(python, ROOT / "tests" / "package" / "smoke.py", cwd=directory, env=environment(build))
        print(f"Python {version}: {'failed' if done.returncode else 'fine'}", flush=True)
        passed, failed = passed + (not done.returncode), failed + bool(done.returncode)
    return passed, failed, skipped


# ---- builds with sanitizers ----


def sanitizer(build):
    with open(build / "meson-info" / "intro-buildoptions.json", encoding="utf-8") as file:
        (value,) = (option["value"] for option in json.load(file) if option["name"] == "b_sanitize")
    return value if isinstance(value, str) else ",".join(value)


def run_sanitized(build):
    """The extension module of the build; the sanitizer's library must be the first of the process."""
    module = build / "python" / "stoker" / "_core.abi3.so"
    if not module.exists():
        skip("the package is not built: there are no headers of Python")
    loaded = call("ldd", module, stdout=subprocess.PIPE, text=True).stdout
    library = re.search(r"(/\S*lib(?:clang_rt\.)?asan\S*)", loaded)
    if not library:
        skip("the sanitizer is no shared library here")
    env = environment(
        build,
        LD_PRELOAD=library[1],
        PYTHONPATH=str(build / "python"),
        PYTHONMALLOC="malloc",
        STOKER_PACKAGE="build",
        STOKER_SANITIZED="1",
        ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=0",
    )
    tests = [ROOT / "tests" / "package" / name for name in MEMORY_TESTS]
    return run_pytest(VENV / "bin" / "python", env, [test for test in tests if test.exists()])


def main():
    # Tests interrupt themselves, also where we run in the background of a shell, which ignores the signal.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    build = pathlib.Path(sys.argv[1]).resolve()
    if not (VENV / "requirements.txt").exists() or (VENV / "requirements.txt").read_text() != REQUIREMENTS.read_text():
        skip("there is no .venv-package of the right packages; scripts/deps.sh package makes it")
    kind = sanitizer(build)
    if "address" in kind:
        counts = [run_sanitized(build)]
    elif kind not in ("none", ""):
        skip(f"Python does not start under the {kind} sanitizer")
    else:
        wheel, digest = made_wheel()
        install(VENV / "bin" / "python", wheel, digest, VENV / "wheel")
        counts = [
            run_pytest(VENV / "bin" / "python", environment(build), [ROOT / "tests" / "package"]),
            run_smoke(build, wheel, digest),
        ]
    passed, failed, skipped = (sum(part) for part in zip(*counts))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
