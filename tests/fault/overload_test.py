"""What the overload test calls broken, its generators, and a short overload of a shard."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import overload
import processes
import pytest
from google.protobuf.empty_pb2 import Empty
from open_loop import OpenLoop
from protocol_abuse import Subject


class JudgementTest:
    GOOD = {"alive": True, "slope_mib_per_minute": 0.2, "goodput_ratio": 0.9, "health_p99_ms": 50.0,
            "health_failures": 0}

    def test_each_promise_that_is_broken_is_named(self) -> None:
        assert list(overload.broken(self.GOOD)) == []
        for key, value, words in (("alive", False, "has ended"),
                                  ("slope_mib_per_minute", 1.5, "grows by 1.5 MiB"),
                                  ("goodput_ratio", 0.79, "0.79 of the capacity"),
                                  ("health_p99_ms", 1e6, "health takes"),
                                  ("health_failures", 1, "1 health calls failed")):
            assert words in " ".join(overload.broken(self.GOOD | {key: value}))

    def test_the_slope_is_that_after_the_first_third(self) -> None:
        grows = [(second, 100.0 + second) for second in range(30)]
        assert overload.slope_mib_per_minute(grows) == pytest.approx(60.0, abs=1e-7)
        warms_up = [(second, min(100.0, 10.0 * second)) for second in range(30)]
        assert overload.slope_mib_per_minute(warms_up) == pytest.approx(0.0, abs=1e-7)


class OpenLoopTest:
    @pytest.fixture(autouse=True)
    def _subject(self, tmp_path: pathlib.Path) -> Iterator[None]:
        self.subject = Subject(tmp_path / "shard")
        yield
        self.subject.process.kill()

    def run_loop(self, method: str, seconds: float = 2.0, **pace: Any) -> dict[str, int]:
        loop = OpenLoop(self.subject.address, method, Empty(), 2, processes.PATIENCE_SECONDS)
        return loop.run(seconds, **pace)

    def test_calls_come_at_their_rate_and_are_counted_by_their_answers(self) -> None:
        counts = self.run_loop(overload.HEALTH, rate=50)
        assert counts["OK"] > 5
        assert sum(counts.values()) <= 100
        assert set(counts) - {"OK", "given up"} == set()

    def test_a_closed_loop_keeps_some_calls_under_way(self) -> None:
        assert self.run_loop(overload.HEALTH, at_once=4)["OK"] > 10

    def test_refusals_are_no_answers(self) -> None:
        # There is no such model.
        assert self.run_loop(overload.METHOD, at_once=1)["INVALID_ARGUMENT"] > 0


class OverloadTest:
    def test_a_shard_that_has_too_much_to_do_answers_and_stays(self) -> None:
        result = overload.run(4, times=10)
        assert result["alive"], result
        assert result["health_failures"] == 0, result
        assert result["capacity_per_second"] > 0
        assert result["answers"].get("OK", 0) > 0, result
        # More was asked for than could be answered.
        assert sum(result["answers"].values()) > result["answers"]["OK"]
