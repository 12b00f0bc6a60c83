"""Statistics and foreign load of the benchmarks in Python, and the sums of the micro benchmark."""

import math

import measurement
import micro_benchmark
import pytest
from pytest import approx


def test_median_spread_and_when_it_is_enough() -> None:
    assert [measurement.median(values) for values in ([], [9, 1, 5], [9, 1, 5, 6])] == [0, 5, 5.5]
    # The range relative to the median.
    assert [measurement.spread(values) for values in ([4], [11, 9, 10], [-1, 0, 1])] == [
        0, approx(0.2), math.inf]
    assert [measurement.enough(values, 2, 4, 0.1) for values in (
        [10], [10, 10.5], [10, 12, 14], [10, 12, 14, 16])] == [False, True, False, True]


def test_busy_ticks_leave_out_idle_and_disk_wait() -> None:
    text = "cpu  100 20 30 100000 5000 4 5 6 70 8\ncpu0 1 1 1 1 1 1 1 1\n"
    assert measurement.busy_ticks(text) == 100 + 20 + 30 + 4 + 5 + 6


@pytest.mark.parametrize(
    "text", ["", "cpu 1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 x 4 5 6 7 8\n"])
def test_busy_ticks_refuse_other_text(text: str) -> None:
    with pytest.raises(ValueError):
        measurement.busy_ticks(text)


def test_medians_ignore_aggregates_and_convert_units() -> None:
    runs = [{"run_name": "A", "run_type": "iteration", "cpu_time": t, "time_unit": "us"}
            for t in (3, 1, 2)]
    runs.append({"run_name": "A", "run_type": "aggregate", "cpu_time": 99, "time_unit": "us"})
    assert micro_benchmark.medians({"benchmarks": runs}) == {"A": (2000, 1.0)}


def test_bandwidth_and_share() -> None:
    times = {name: (50.0, 0.0) for name in micro_benchmark.OTHER_LIMITS}
    for name, _, reference, _, limit in micro_benchmark.KERNELS:
        times |= {name: (100.0, 0.0), limit: (50.0, 0.0)}
        if reference:
            times[reference] = (1000.0, 0.0)
    result = micro_benchmark.summarize(times)
    kernels = {kernel["name"]: kernel for kernel in result["kernels"]}
    limits = {limit["name"]: limit for limit in result["limits"]}
    assert kernels["Dot/128"]["gbps"] == approx(1024 / 100)
    assert kernels["Dot/128"]["times_reference"] == approx(10)
    # LimitRead/1024 reads 1024 bytes in half the time.
    assert kernels["Dot/128"]["share_of_limit"] == approx(0.5)
    assert limits["LimitCopy/512"]["gbps"] == approx(2 * 512 / 50)
    # Sixteen transforms at once beside one.
    assert kernels["SignedHadamardLanes/128"]["times_reference"] == approx(160)
