"""The kill loop finds the loss that it must find, and none where there is none."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import increment_cells
import kill_loop
import processes
import pytest
import twin
from kill_loop import KillLoop, Result
from kill_schedule import (
    CLIENT,
    COORDINATOR,
    DEEDS,
    KILL,
    PARTITION,
    PAUSE,
    SHARD,
    TRAINER,
    schedule,
)

SEED = 11
Run = Callable[..., Result]


def test_the_schedule_has_early_and_late_strikes_and_partitions_of_every_kind() -> None:
    members = {SHARD: 3, TRAINER: 1, CLIENT: 2, COORDINATOR: 1}
    planned = schedule(SEED, {deed: 20 for deed in DEEDS}, members)
    assert {strike.directions for strike in planned if strike.deed == PARTITION} == {
        ("up",), ("down",), ("up", "down")}
    assert sum(strike.pause < 0.3 for strike in planned) > 30
    assert sum(strike.pause > 0.4 for strike in planned) > 30
    with pytest.raises(ValueError, match="proxies"):
        kill_loop.run(kill_loop.Settings(SEED, strikes={(SHARD, PARTITION): 1}), pathlib.Path())


class FaultyLoop(kill_loop.KillLoop):
    """One that goes on until the network has done its worst."""

    def finish(self) -> Result:
        def struck() -> bool:
            self._supervise(0.05)
            return (sum(self._answers()) >= 200
                    and {"lose_reply", "cut"} <= self.cluster.faults().keys())

        processes.wait_until(struck, lambda: f"answers, and faults: {self.cluster.faults()}")
        return super().finish()


@pytest.fixture
def run_loop(bin_dir: pathlib.Path, tmp_path: pathlib.Path) -> Run:
    def call(strikes: dict[tuple[str, str], int], loop_class: type[KillLoop] = kill_loop.KillLoop,
             **settings: Any) -> Result:
        return kill_loop.run(kill_loop.Settings(SEED, strikes=strikes, **settings), tmp_path,
                             loop_class=loop_class)

    return call


def test_killed_trainers_and_coordinators_and_a_bad_network_lose_and_repeat_nothing(
        run_loop: Run) -> None:
    strikes = {(TRAINER, KILL): 1, (CLIENT, KILL): 2, (COORDINATOR, KILL): 1, (SHARD, PAUSE): 1,
               (SHARD, PARTITION): 1}
    result = run_loop(strikes, FaultyLoop, rules=kill_loop.FAULTY_NETWORK)
    assert result["violations"] == {}, result
    assert (result["acked_lost"], result["applied_twice"]) == (0, 0)
    assert {deed: result[f"{deed[0]}_{deed[1]}s"] for deed in strikes} == strikes
    assert result["acked"] >= 200


def test_a_killed_shard_without_a_log_has_lost_updates_and_says_how_many(run_loop: Run) -> None:
    result = run_loop({(SHARD, KILL): 2}, expect_loss=True, trainers=0)
    assert result["violations"] == {}, result
    assert result["acked_lost"] > 0
    assert result["reported_lost"] == result["acked_lost"]
    assert result["applied_twice"] == 0
    assert result["recovery_p99_seconds"] > 0


def test_no_loss_is_a_failure_where_loss_is_expected(run_loop: Run) -> None:
    assert run_loop({}, expect_loss=True, trainers=0)["violations"] == {"no_loss_found": 1}


def test_a_shard_with_another_bit_than_its_twin_is_a_violation(run_loop: Run) -> None:
    replay = twin.replay

    def other_bit(copy: pathlib.Path, directory: pathlib.Path,
                  models: Sequence[str]) -> tuple[twin.Digests, twin.Restored]:
        digests, found = replay(copy, directory, models)
        if copy.name == "twin-1":
            steps, digest = digests["increments/cells"]
            digests["increments/cells"] = steps, f"{int(digest, 16) ^ 1:016x}"
        return digests, found

    with mock.patch("twin.replay", other_bit):
        result = run_loop({(SHARD, KILL): 1}, mode="log", trainers=0)
    assert result["violations"] == {"digests_differ": 1}
    assert result["bit_equal_shards"] == 1
    assert "increments/cells" in result["twins"][1]["differing"][0]


@pytest.mark.usefixtures("bin_dir")
def test_many_increments_over_lost_replies_and_killed_shards_are_exact(
        tmp_path: pathlib.Path) -> None:
    result = kill_loop.run(kill_loop.increment_settings(SEED, 2000, 2, clients=3), tmp_path)
    assert result["violations"] == {}, result
    assert result["acked"] >= 2000
    assert result["sum_difference"] == 0
    # Each is, bit for bit, the shard that never stopped.
    assert (result["bit_equal_shards"], result["digests_differ"]) == (2, 0)
    assert result["final_sum"] == result["acked"] + result["unknown_applied"]
    assert result["shard_kills"] == 2
    assert result["network_faults"]["lose_reply"] > result["acked"] * 0.03
    assert result["network_faults"]["duplicate"] > 0


def test_one_increment_too_few_in_the_sum_is_a_violation(run_loop: Run) -> None:
    def one_missing(*arguments: Any) -> tuple[Any, Any]:
        sums, miscounted = increment_cells.final_sums(*arguments)
        return dict(list(sums.items())[:-1]), miscounted

    with mock.patch("kill_loop.final_sums", one_missing):
        result = run_loop({}, trainers=0)
    assert result["violations"] == {"acked_lost": 1, "sum_differs": 1}
