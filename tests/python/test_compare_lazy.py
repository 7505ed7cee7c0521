#!/usr/bin/env python3
"""What compare-lazy reports is what the ways are: test_compare_lazy.py BUILD_DIR

Counts, digests and bytes are compared; rates and times are looked at for sense alone.
"""
import json
import unittest

import doclib

BUILD = doclib.build_dir()
NOISE = "--plugin build/examples/op_negate.so"
RANDOM = "range(1500) | shuffle(seed=3) | cast(value=float32) | add_noise(value) | batch(64) | repeat(9)"
PLAIN = "range(1500) | shuffle(seed=3) | cast(value=float32) | batch(64)"


class CompareLazy(unittest.TestCase):
    def setUp(self):
        self.place = doclib.Place(BUILD)
        self.addCleanup(self.place.__exit__)
        self.caches = self.place.path / "caches"
        self.caches.mkdir()

    def compare(self, text, options=""):
        done = self.place.run(f"build/stoker compare-lazy -q --json --disk caches {NOISE} -e '{text}' {options}")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(list(self.caches.iterdir()), [])
        report = json.loads(done.stdout)
        return report, {way["name"]: way for way in report["ways"]}

    def digest(self, text):
        done = self.place.run(f"build/stoker run -q --digest {NOISE} -e '{text}'")
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.split()[1]

    def test_versions_of_a_sample_are_counted(self):
        for epochs in (2, 5):
            _, ways = self.compare(RANDOM, f"--epochs {epochs} --rounds 1")
            for name, wanted in (("lazy", epochs), ("lazy, cached", epochs), ("stored, memory", 1), ("stored, disk", 1)):
                with self.subTest(name=name, epochs=epochs):
                    way = ways[name]
                    self.assertEqual(way["distinct_max"], wanted)
                    self.assertAlmostEqual(way["distinct_mean"], wanted, delta=0.01)  # two draws may be the same
                    self.assertEqual(way["checked_samples"], 1000)

    def test_pipeline_without_a_batch_is_counted_by_epochs(self):
        report, ways = self.compare("range(300) | cast(value=float32) | add_noise(value)", "--epochs 3 --rounds 1")
        self.assertEqual(report["samples"], 300)
        self.assertEqual(ways["lazy"]["distinct_max"], 3)
        self.assertEqual(ways["stored, memory"]["distinct_max"], 1)

    def test_chance_is_counted_as_it_falls(self):
        """Of four draws among two values, 1.875 differ on the average, and the mean over 1,000 is near."""
        text = RANDOM.replace("add_noise(value)", "add_noise(value, amount=0.5) | cast(value=int64)")
        _, ways = self.compare(text, "--epochs 4 --rounds 1")
        # What is cut off to whole numbers is i - 1 or i with even chances, but for sample 0.
        self.assertAlmostEqual(ways["lazy"]["distinct_mean"], 1.875, delta=0.1)
        self.assertEqual(ways["stored, memory"]["distinct_max"], 1)

    def test_ways_differ_in_what_is_kept_and_in_nothing_else(self):
        _, ways = self.compare(RANDOM, "--epochs 3 --rounds 1")
        self.assertEqual(len({way["first_epoch_digest"] for way in ways.values()}), 1)
        self.assertEqual(ways["lazy"]["digest"], ways["lazy, cached"]["digest"])
        self.assertEqual(ways["stored, memory"]["digest"], ways["stored, disk"]["digest"])
        self.assertNotEqual(ways["lazy"]["digest"], ways["stored, memory"]["digest"])

    def test_pipelines_that_are_reported_run_as_they_stand(self):
        report, ways = self.compare(RANDOM, "--epochs 3 --rounds 1 --limit 200")
        self.assertEqual(report["samples"], 200)
        digests = {name: self.digest(way["pipeline"].replace("/samples.cache", "-kept.cache"))
                   for name, way in ways.items()}
        self.assertEqual(digests["lazy"], digests["lazy, cached"])
        self.assertEqual(digests["stored, memory"], digests["stored, disk"])
        self.assertNotEqual(digests["lazy"], digests["stored, memory"])
        for left in self.caches.iterdir():
            left.unlink()

    def test_memory_disk_and_hits(self):
        report, ways = self.compare(RANDOM, "--epochs 3 --rounds 2 --order-seed 5")
        self.assertEqual((report["order_seed"], report["rounds"], report["batch_rows"]), (5, 2, 64))
        self.assertEqual([name for name, way in ways.items() if way["disk_bytes"] > 0], ["stored, disk"])
        self.assertGreater(ways["stored, disk"]["disk_bytes"], 1500 * 4)
        self.assertEqual(ways["lazy"]["cache_hits"] + ways["lazy"]["cache_misses"], 0)
        self.assertIsNone(ways["lazy"]["cache_kept"])
        for name in ("lazy, cached", "stored, memory", "stored, disk"):
            self.assertEqual(ways[name]["cache_hits"] + ways[name]["cache_misses"], 3 * 1500)
            self.assertGreater(ways[name]["cache_kept"], 0.5)
        for way in ways.values():
            self.assertGreater(way["peak_buffer_bytes"], 0)
            self.assertLessEqual(way["peak_buffer_bytes"], report["budget_bytes"])
            self.assertEqual(len(way["later_samples_per_s_of_rounds"]), 2)
            self.assertGreater(way["later_samples_per_s"], 0)
            self.assertGreater(way["cpu_s_per_1000_samples"], 0)
            self.assertNotIn("later_wait_share", way)

    def test_little_memory_keeps_little(self):
        _, ways = self.compare("range(20000) | cast(value=float32) | add_noise(value) | batch(64)",
                               "--rounds 1 --memory 400K --threads 2")
        self.assertLess(ways["stored, memory"]["cache_kept"], 0.9)
        self.assertEqual(ways["stored, memory"]["distinct_max"], 1)

    def test_waits_come_with_a_step(self):
        report, ways = self.compare(RANDOM, "--rounds 1 --step-time 20us")
        self.assertEqual(report["step_s"], 20e-6)
        for way in ways.values():
            self.assertTrue(0 <= way["later_wait_share"] <= 1 and 0 <= way["first_epoch_wait_share"] <= 1)
        self.assertIn(report["recommended"], ways)
        self.assertIn("20 us step", report["recommendation"])

    def test_without_random_ops_one_way_is_left_out_with_its_reason(self):
        report, ways = self.compare(PLAIN, "--rounds 1")
        self.assertFalse(ways["lazy, cached"]["ran"])
        self.assertIn("draws random numbers", ways["lazy, cached"]["why_not"])
        self.assertEqual(ways["lazy"]["distinct_max"], 1)
        self.assertEqual(len({way["digest"] for way in ways.values() if way["ran"]}), 1)
        self.assertNotIn("augmentation", report["recommendation"])

    def test_recommended_way_is_named_first_in_one_sentence(self):
        report, _ = self.compare(RANDOM, "--rounds 1")
        sentence = report["recommendation"]
        self.assertTrue(sentence.lower().startswith(report["recommended"] + ":"), sentence)
        self.assertTrue(sentence.endswith(".") and ". " not in sentence, sentence)


if __name__ == "__main__":
    unittest.main()
