"""Statistics and foreign load of the benchmarks in Python, and the sums of the micro benchmark.

usage: measurement_test.py
"""

import math
import pathlib
import sys
import unittest

_BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(_BENCH / "common"), str(_BENCH / "micro")]

import measurement  # noqa: E402
import micro_benchmark  # noqa: E402


class StatisticsTest(unittest.TestCase):
    def test_median(self):
        self.assertEqual(measurement.median([]), 0.0)
        self.assertEqual(measurement.median([9, 1, 5]), 5)
        self.assertEqual(measurement.median([9, 1, 5, 6]), 5.5)

    def test_spread_is_the_range_relative_to_the_median(self):
        self.assertEqual(measurement.spread([4]), 0.0)
        self.assertAlmostEqual(measurement.spread([11, 9, 10]), 0.2)
        self.assertTrue(math.isinf(measurement.spread([-1, 0, 1])))

    def test_enough(self):
        self.assertFalse(measurement.enough([10], 2, 4, 0.1))
        self.assertTrue(measurement.enough([10, 10.5], 2, 4, 0.1))
        self.assertFalse(measurement.enough([10, 12, 14], 2, 4, 0.1))
        self.assertTrue(measurement.enough([10, 12, 14, 16], 2, 4, 0.1))


class BusyTicksTest(unittest.TestCase):
    def test_leaves_out_idle_and_disk_wait(self):
        text = "cpu  100 20 30 100000 5000 4 5 6 70 8\ncpu0 1 1 1 1 1 1 1 1\n"
        self.assertEqual(measurement.busy_ticks(text), 100 + 20 + 30 + 4 + 5 + 6)

    def test_refuses_other_text(self):
        for text in ("", "cpu 1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 x 4 5 6 7 8\n"):
            with self.subTest(text=text), self.assertRaises(ValueError):
                measurement.busy_ticks(text)

    def test_foreign_load_of_this_machine_is_a_number(self):
        load = measurement.ForeignLoad()
        self.assertEqual(sum(range(10**6)), 10**6 * (10**6 - 1) // 2)
        self.assertGreaterEqual(load.processors(), 0.0)


class MicroTest(unittest.TestCase):
    def test_medians_ignore_aggregates_and_convert_units(self):
        runs = [{"run_name": "A", "run_type": "iteration", "cpu_time": t, "time_unit": "us"}
                for t in (3, 1, 2)]
        runs.append({"run_name": "A", "run_type": "aggregate", "cpu_time": 99, "time_unit": "us"})
        self.assertEqual(micro_benchmark.medians({"benchmarks": runs}), {"A": (2000, 1.0)})

    def test_bandwidth_and_share(self):
        times = {}
        for name, _, reference, _, limit in micro_benchmark.KERNELS:
            times |= {name: (100.0, 0.0), limit: (50.0, 0.0)}
            if reference:
                times[reference] = (1000.0, 0.0)
        for name in micro_benchmark.OTHER_LIMITS:
            times[name] = (50.0, 0.0)
        result = micro_benchmark.summarize(times)
        dot = next(kernel for kernel in result["kernels"] if kernel["name"] == "Dot/128")
        self.assertAlmostEqual(dot["gbps"], 1024 / 100)
        self.assertAlmostEqual(dot["times_reference"], 10)
        # LimitRead/1024 reads 1024 bytes in half the time.
        self.assertAlmostEqual(dot["share_of_limit"], 0.5)
        copy = next(limit for limit in result["limits"] if limit["name"] == "LimitCopy/512")
        self.assertAlmostEqual(copy["gbps"], 2 * 512 / 50)
        # Sixteen transforms at once beside one.
        lanes = next(k for k in result["kernels"] if k["name"] == "SignedHadamardLanes/128")
        self.assertAlmostEqual(lanes["times_reference"], 160)

    def test_a_kernel_that_was_not_measured_is_an_error(self):
        with self.assertRaises(KeyError):
            micro_benchmark.summarize({})


if __name__ == "__main__":
    unittest.main()
