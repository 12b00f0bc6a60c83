"""What the overload test calls broken, its generators, and a short overload of a shard.

usage: overload_test.py --bin-dir DIR [unittest arguments]
"""

import pathlib
import tempfile
import unittest

import fault_paths  # noqa: F401
import overload
import processes
from google.protobuf.empty_pb2 import Empty
from open_loop import OpenLoop
from protocol_abuse import Subject


class JudgementTest(unittest.TestCase):
    GOOD = {"alive": True, "slope_mib_per_minute": 0.2, "goodput_ratio": 0.9, "health_p99_ms": 50.0,
            "health_failures": 0}

    def test_each_promise_that_is_broken_is_named(self):
        self.assertEqual(list(overload.broken(self.GOOD)), [])
        for key, value, words in (("alive", False, "has ended"),
                                  ("slope_mib_per_minute", 1.5, "grows by 1.5 MiB"),
                                  ("goodput_ratio", 0.79, "0.79 of the capacity"),
                                  ("health_p99_ms", 1e6, "health takes"),
                                  ("health_failures", 1, "1 health calls failed")):
            self.assertIn(words, " ".join(overload.broken(self.GOOD | {key: value})))

    def test_the_slope_is_that_after_the_first_third(self):
        grows = [(second, 100.0 + second) for second in range(30)]
        self.assertAlmostEqual(overload.slope_mib_per_minute(grows), 60.0)
        warms_up = [(second, min(100.0, 10.0 * second)) for second in range(30)]
        self.assertAlmostEqual(overload.slope_mib_per_minute(warms_up), 0.0)


class OpenLoopTest(unittest.TestCase):
    def setUp(self):
        directory = self.enterContext(tempfile.TemporaryDirectory(prefix="dslide-open-loop-"))
        self.subject = Subject(pathlib.Path(directory) / "shard")
        self.addCleanup(self.subject.process.kill)

    def run_loop(self, method, seconds=2.0, **pace):
        loop = OpenLoop(self.subject.address, method, Empty(), 2, processes.PATIENCE_SECONDS)
        return loop.run(seconds, **pace)

    def test_calls_come_at_their_rate_and_are_counted_by_their_answers(self):
        counts = self.run_loop(overload.HEALTH, rate=50)
        self.assertGreater(counts["OK"], 5)
        self.assertLessEqual(sum(counts.values()), 100)
        self.assertEqual(set(counts) - {"OK", "given up"}, set())

    def test_a_closed_loop_keeps_some_calls_under_way(self):
        self.assertGreater(self.run_loop(overload.HEALTH, at_once=4)["OK"], 10)

    def test_refusals_are_no_answers(self):
        # There is no such model.
        self.assertGreater(self.run_loop(overload.METHOD, at_once=1)["INVALID_ARGUMENT"], 0)


class OverloadTest(unittest.TestCase):
    def test_a_shard_that_has_too_much_to_do_answers_and_stays(self):
        result = overload.run(4, times=10)
        self.assertTrue(result["alive"], result)
        self.assertEqual(result["health_failures"], 0, result)
        self.assertGreater(result["capacity_per_second"], 0)
        self.assertGreater(result["answers"].get("OK", 0), 0, result)
        # More was asked for than could be answered.
        self.assertGreater(sum(result["answers"].values()), result["answers"]["OK"])


if __name__ == "__main__":
    processes.main()
