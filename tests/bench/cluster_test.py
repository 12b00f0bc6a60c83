"""The benchmark of a cluster: what it reads from specs, and what it makes of a race.

usage: cluster_test.py

Starts nothing; bench.smoke runs the benchmark, with PyTorch where it is installed.
"""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / f"bench/{name}") for name in ("cluster", "common", "peers", "report")]

import cluster_benchmark  # noqa: E402
import data_sets  # noqa: E402
import dense_baseline  # noqa: E402
import race  # noqa: E402
import tables  # noqa: E402
from data_parallel import Settings  # noqa: E402

OPTIONS = race.Options(
    bin_dir=pathlib.Path("bin"),
    python=pathlib.Path("python"),
    data="quick",
    steps=300,
    evaluate_every=100,
    limit_seconds=60,
    dense=dense_baseline.Sizes(batch=256, hidden=8, steps=1, all_reduces=1),
    min_repeats=1,
    max_repeats=1,
)
DATA = data_sets.DataSet("quick", pathlib.Path("train"), pathlib.Path("test"))


class RaceTest(unittest.TestCase):
    def test_the_first_evaluation_that_is_not_below_counts(self):
        curve = [[1.0, 0.1], [2.0, 0.3], [3.0, 0.25], [4.0, 0.4]]
        self.assertEqual(race.seconds_to(curve, 0.3), 2.0)
        self.assertEqual(race.seconds_to(curve, 0.31), 4.0)
        self.assertIsNone(race.seconds_to(curve, 0.5))
        self.assertEqual(race.best(curve), 0.4)

    def hashed(self, target, seconds_a_step):
        """The curve of trainings that learn a thousandth of P@1 with each step."""

        def trained(_, data, flags):
            steps = flags[flags.index("--steps") + 1]
            return [steps * seconds_a_step, steps / 1000], {"samples_per_second": 10.0}

        with (
            mock.patch.object(race.Race, "_trained", trained),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            return race.Race(OPTIONS, None)._hashed(DATA, target)[0]

    def test_trainings_get_longer_until_one_is_there(self):
        self.assertEqual([reached for _, reached in self.hashed(0.15, 0.1)], [0.1, 0.2])

    def test_they_end_at_the_steps_and_at_the_limit(self):
        self.assertEqual([reached for _, reached in self.hashed(0.9, 0.1)], [0.1, 0.2, 0.3])
        self.assertEqual([seconds for seconds, _ in self.hashed(0.9, 0.4)], [40, 80])

    def test_each_length_is_about_half_as_long_again(self):
        self.assertEqual(list(race.lengths(10, 160)), [10, 20, 30, 40, 60, 80, 120, 160])
        self.assertEqual(list(race.lengths(2, 3)), [2, 3])

    def test_the_table_says_when_a_training_ended_that_is_not_there(self):
        figures = {"samples_per_second": 10.0, "bytes_per_sample": 14.0}
        sides = [
            race.side("fast", "1gbit", [[1.0, 0.2], [2.5, 0.4]], figures),
            race.side("slow", "1gbit", [[300.0, 0.2], [650.0, 0.3]], figures),
        ]
        text = tables.race(
            {
                "data": "quick",
                "points": 600,
                "labels": 1500,
                "hidden": 8,
                "steps": 300,
                "limit_seconds": 600,
                "target_p_at_1": 0.38,
                "target_share": race.TARGET_SHARE,
                "sides": race.judged(sides, 0.38),
            }
        )
        self.assertRegex(text, r"fast, 1 Gbit/s +\| 2\.50 +\| 0\.400")
        self.assertRegex(text, r"slow, 1 Gbit/s +\| > 650 +\| 0\.300")
        self.assertIn("95 % of the best", text)


class SettingsTest(unittest.TestCase):
    def settings(self, path):
        spec = json.loads(path.read_text(encoding="utf-8"))
        return Settings.of_spec(
            spec, pathlib.Path("train"), test="", steps=3, evaluate_every=0, limit_seconds=0
        )

    def test_both_networks_of_the_race_have_one_spec(self):
        settings = self.settings(race.MODEL)
        self.assertEqual(
            (settings.hidden, settings.batch, settings.hidden_dropout), (128, 256, 0.5)
        )
        self.assertEqual(settings.learning_rate, 0.01)
        self.assertAlmostEqual(settings.head_scale, 128**-0.5)

    def test_first_weights_are_those_of_the_spec(self):
        settings = self.settings(_ROOT / "docs/models/wide-670k.json")
        self.assertEqual((settings.head_scale, settings.hidden_dropout), (0.15, 0.0))


class TorchTest(unittest.TestCase):
    def said(self, **options):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            python = cluster_benchmark.torch_python(mock.Mock(with_torch=False, **options))
        self.assertIsNone(python)
        return said.getvalue()

    def test_without_it_the_remedy_is_said(self):
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.dict(os.environ, DSLIDE_CACHE_DIR=folder),
        ):
            self.assertRegex(self.said(no_torch=False), "^skipped: PyTorch.*--with-torch")

    def test_it_can_be_left_out(self):
        self.assertRegex(self.said(no_torch=True), "^skipped: PyTorch.*--no-torch")


if __name__ == "__main__":
    unittest.main()
