#!/usr/bin/env python3
"""Runs what is in examples/, the plug-ins and the training loop: test_examples.py BUILD_DIR"""
import json
import re
import signal
import subprocess
import time
import unittest

import doclib

BUILD = doclib.build_dir()
NEGATE = "build/examples/op_negate.so"
PICTURES = "build/examples/op_pictures.so"
LOOP = "build/examples/train_loop"
RESULT = re.compile(r"^(started|resumed): (\d+) steps, (\d+) rows, sum (\S+)$")


class Examples(unittest.TestCase):
    def setUp(self):
        self.place = doclib.Place(BUILD)
        self.addCleanup(self.place.__exit__)

    def run_ok(self, command):
        done = self.place.run(command)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def pipeline(self, text):
        (self.place.path / "p.stoker").write_text(text + "\n")

    def loop(self, options=""):
        match = RESULT.match(self.run_ok(f"{LOOP} p.stoker {options}").strip())
        self.assertIsNotNone(match)
        how, steps, rows, total = match.groups()
        return how, int(steps), int(rows), float(total)

    def rows_of(self, text, options=""):
        out = self.run_ok(f"build/stoker run -q --plugin {NEGATE} -e '{text} | print' {options}")
        return [json.loads(line)["value"] for line in out.splitlines()]

    def test_negate_in_the_program(self):
        self.assertEqual(self.rows_of("range(5) | negate(value)"), [0, -1, -2, -3, -4])
        self.assertEqual(self.rows_of("range(3) | cast(value=float32) | negate(value)"), [0.0, -1.0, -2.0])
        self.assertEqual(self.rows_of("range(3) | batch(2) | negate(value)"), [0, -1, -2])

    def test_negate_of_another_type_is_refused_at_its_place(self):
        done = self.place.run(f"build/stoker plan --plugin {NEGATE} -e 'range(5) | cast(value=uint8) | negate(value)'")
        self.assertEqual(done.returncode, 2)
        self.assertIn("line 1, column 32: negate: field 'value' is neither int64 nor float32", done.stdout)

    def test_noise_is_small_depends_on_the_seed_and_not_on_threads(self):
        text = "range(1000) | cast(value=float32) | add_noise(value, amount=0.25)"
        noisy = self.rows_of(text)
        self.assertTrue(all(abs(v - i) <= 0.25 for i, v in enumerate(noisy)))
        self.assertGreater(len({round(v - i, 4) for i, v in enumerate(noisy)}), 500)
        self.assertEqual(noisy, self.rows_of(text, "--threads 1"))
        self.assertNotEqual(noisy, self.rows_of(text, "--seed 1"))

    def test_pictures_have_the_size_of_real_ones_and_all_classes(self):
        text = "pictures(500, classes=7) | encode_png(image)"
        self.run_ok(f"build/stoker run -q --plugin {PICTURES} -e '{text} | write_tfrecord(\"p.tfrecord\")'")
        seen = json.loads(self.run_ok("build/stoker inspect --json p.tfrecord"))[0]
        self.assertTrue(2200 < seen["record_bytes"]["mean"] < 2600, seen)
        rows = self.run_ok("build/stoker run -q -e 'tfrecord(\"p.tfrecord\") | parse(label=int64) | print'")
        self.assertEqual({json.loads(line)["label"] for line in rows.splitlines()}, set(range(7)))

    def test_pictures_depend_on_seed_and_number_alone(self):
        def digest(text, options=""):
            return self.run_ok(f"build/stoker run -q --digest --plugin {PICTURES} -e '{text}' {options}")
        text = "pictures(90, width=20, height=12) | batch(30)"
        self.assertEqual(digest(text, "--threads 1"), digest(text, "--threads 3 --seed 5"))
        self.assertNotEqual(digest(text), digest(text.replace("12)", "12, seed=1)")))
        self.assertEqual(digest(text + " | take(1)"), digest(text.replace("90", "30")))
        # The same in each epoch, as files are.
        self.assertEqual(digest(text + " | repeat(2)"), digest(text.replace("| batch", "| cache | batch") + " | repeat(2)"))

    def test_loop_sees_every_row_once(self):
        self.pipeline("range(1000) | shuffle(seed=3) | batch(64)")
        self.assertEqual(self.loop(), ("started", 16, 1000, 499500.0))

    def test_loop_takes_plugins(self):
        self.pipeline("range(1000) | negate(value) | batch(64)")
        self.assertEqual(self.loop(f"--plugin {NEGATE}"), ("started", 16, 1000, -499500.0))

    def test_loop_goes_on_from_its_checkpoint(self):
        self.pipeline("range(1000) | shuffle(seed=3) | batch(10) | repeat(2)")
        first = self.loop("--checkpoint run.ck --every 7 --steps 33")
        rest = self.loop("--checkpoint run.ck")
        self.assertEqual((first[:2], rest[:2]), (("started", 33), ("resumed", 167)))
        self.assertEqual(first[3] + rest[3], 2 * 499500.0)

    def test_loop_ends_cleanly_on_interrupt(self):
        self.pipeline("range(1000) | batch(10) | repeat()")
        child = subprocess.Popen([str(BUILD / "examples/train_loop"), "p.stoker", "--checkpoint", "run.ck"],
                                 cwd=self.place.path, stdout=subprocess.PIPE, text=True)
        checkpoint = self.place.path / "run.ck"
        while not checkpoint.exists() and child.poll() is None:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=doclib.TIMEOUT_S)
        self.assertEqual(child.returncode, 0)
        batches = re.search(r"^batches (\d+)$", checkpoint.read_text(), re.M)
        self.assertEqual(RESULT.match(out.strip()).group(2), batches.group(1))

    def test_loop_records_steps_and_spans(self):
        self.pipeline("range(1000) | batch(10)")
        self.loop("--trace t.json --checkpoint run.ck --every 50")
        events = json.loads((self.place.path / "t.json").read_text())["traceEvents"]
        names = [event["name"] for event in events if event.get("ph") == "X"]
        self.assertEqual(names.count("train"), 100)
        self.assertEqual(names.count("checkpoint"), 3)
        self.assertEqual(names.count("step"), 101)  # the last one finds the end of the data

    def test_loop_tells_mistakes(self):
        self.pipeline("range(10) | bach(5)")
        done = self.place.run(f"{LOOP} p.stoker")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did you mean 'batch'?", done.stdout)
        self.pipeline("range(10) | discard")
        self.assertIn("ends with a sink", self.place.run(f"{LOOP} p.stoker").stdout)
        self.assertEqual(self.place.run(LOOP).returncode, 2)


if __name__ == "__main__":
    unittest.main()
