#!/usr/bin/env python3
"""Every program and library of a build has what keeps a mistake in it small: test_hardening.py BUILD_DIR

See scripts/check_hardening.py. Also looks at every command of the compiler, and at programs that lack one thing each,
so that it is known to see what it looks for.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_hardening  # noqa: E402

BINARIES = {"executable", "shared library", "shared module"}
# A function each, without an array: there may be nothing in them to protect.
SMALL = re.compile(r"^(op_\w+\.so|bench|g2p|trace|train_loop)$")
WEAK = """
#include <string.h>
int weak(const char *s) { char copy[64]; strcpy(copy, s); return copy[0]; }
int main(int argc, char **argv) { return weak(argv[0]); }
"""


def introspect(build, what):
    return json.loads((build / "meson-info" / f"intro-{what}.json").read_text())


def options(build):
    return {option["name"]: option["value"] for option in introspect(build, "buildoptions")}


def binaries(build):
    """Those that are for users; tests are not."""
    for target in introspect(build, "targets"):
        defined = pathlib.Path(target["defined_in"]).relative_to(ROOT)
        if target["type"] in BINARIES and defined.parts[0] != "tests":
            yield from (pathlib.Path(name) for name in target["filename"])


def test_every_binary_is_hardened(build):
    found = list(binaries(build))
    names = {path.name for path in found}
    assert {"stoker", "stoker-hdf5", "libstoker.so.0.1.0", "op_negate.so"} <= names, names
    for path in found:
        # Meson names the distribution's directory of libhdf5 until the program is installed.
        problems = list(check_hardening.own_problems(path, bool(SMALL.match(path.name)), ["/usr/lib"]))
        assert not problems, f"{path}: {problems}"
    print(f"{len(found)} binaries")


def test_every_file_was_compiled_so(build):
    wanted = ["-fstack-protector-strong", "-fstack-clash-protection"]
    wanted += ["-D_FORTIFY_SOURCE"] if options(build)["optimization"] not in ("0", "plain") else []
    commands = json.loads((build / "compile_commands.json").read_text())
    own = [c for c in commands if not c["file"].startswith("../tests/")]
    assert len(own) > 300, len(own)
    for command in own:
        missing = [word for word in wanted if word not in command["command"]]
        assert not missing, (command["file"], missing)


def test_every_object_can_have_shadow_stacks_and_marked_targets(build):
    """The linker says so of a program where the start files of the distribution do; ours must not be the reason."""
    objects = [path for path in build.rglob("*.o") if "tests" not in path.relative_to(build).parts]
    if "X86-64" not in check_hardening.readelf("-h", str(objects[0])):
        return
    assert len(objects) > 300, len(objects)
    for first in range(0, len(objects), 100):
        part = [str(path) for path in objects[first : first + 100]]
        text = check_hardening.readelf("-n", *part)
        with_note = len(re.findall(r"x86 feature: IBT, SHSTK", text))
        assert with_note == len(part), (with_note, len(part))
    ask = ["cc", "-print-file-name=Scrt1.o"]
    start = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()
    if pathlib.Path(start).exists() and not check_hardening.has_note(start, "IBT"):
        print(f"{start} has no note on IBT, so no program here has one")
        return
    for path in binaries(build):
        assert check_hardening.has_note(str(path), "IBT"), path


def weak_problems(place, *flags):
    source, program = place / "weak.c", place / "weak"
    source.write_text(WEAK)
    subprocess.run(["cc", "-w", str(source), "-o", str(program), *flags], check=True)
    return " ".join(check_hardening.own_problems(program))


def test_what_is_missing_is_seen(build):
    with tempfile.TemporaryDirectory(prefix="stoker-hardening-") as name:
        place = pathlib.Path(name)
        hard = ["-O2", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fPIE", "-pie"]
        hard += ["-Wl,-z,now", "-Wl,-z,relro", "-Wl,-z,noexecstack"]
        shadow = ["-Wl,-z,shstk"] if "X86-64" in check_hardening.readelf("-h", sys.executable) else []
        assert weak_problems(place, *hard, *shadow) == ""
        cases = {
            "fixed address": ["-fno-pie", "-no-pie"],
            "executable stack": ["-Wl,-z,execstack"],
            "stay writable": ["-Wl,-z,norelro"],
            "when they are called": ["-Wl,-z,lazy"],
            "no stack protector": ["-fno-stack-protector"],
            "no checked function": ["-U_FORTIFY_SOURCE"],
            "looks for libraries in /tmp/x": ["-Wl,-rpath,/tmp/x:$ORIGIN/lib"],
        }
        for words, flags in cases.items():
            found = weak_problems(place, *hard, *shadow, *flags)
            assert words in found, (words, found)
        if shadow:
            assert "shadow stacks" in weak_problems(place, *hard, "-fcf-protection=none")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    known = options(build)
    for tool in ("readelf", "cc"):
        if not shutil.which(tool):
            print(f"skipped: there is no {tool}")
            return 77
    if not known["hardening"] or known["b_sanitize"] not in ("none", [], ""):
        print("skipped: this build is made without hardening")
        return 77
    failed = 0
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    for name, test in tests:
        try:
            test(build)
        except AssertionError as error:
            failed += 1
            print(f"{name}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
