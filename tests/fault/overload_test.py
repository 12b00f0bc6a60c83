"""What the overload test calls broken, its generators, and a short overload of a shard."""

from __future__ import annotations

import overload
import pytest


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


class OverloadTest:
    def test_a_shard_that_has_too_much_to_do_answers_and_stays(self) -> None:
        result = overload.run(4, times=10)
        assert result["alive"], result
        assert result["health_failures"] == 0, result
        assert result["capacity_per_second"] > 0
        assert result["answers"].get("OK", 0) > 0, result
        # More was asked for than could be answered.
        assert sum(result["answers"].values()) > result["answers"]["OK"]
