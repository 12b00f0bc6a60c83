"""The job loop: what it calls a violation, and a short one."""

from __future__ import annotations

import pathlib
from typing import Any

import job_loop
import pytest
from kill_schedule import COORDINATOR, SHARD, TRAINER

KILLS = {COORDINATOR: 4, SHARD: 1, TRAINER: 1}
WELL = {"coordinator_kills": 4, "shard_kills": 1, "trainer_kills": 1, "epochs": list(range(14)),
        "finished": True, "samples": 140, "samples_expected": 140, "p_at_1": [0.5, 0.5],
        "undisturbed_p_at_1": 0.509, "acked_lost": 0, "trained_again": 0, "changed_by_joining": 0,
        "problems": []}


@pytest.mark.parametrize(("found", "violations"), [
    ({}, {}),
    ({"coordinator_kills": 2}, {"too_few_kills": 2}),
    ({"epochs": list(range(15))}, {"epochs_differ": 1}),
    ({"epochs": [0, *range(13)]}, {"epochs_differ": 1}),
    ({"finished": False}, {"unfinished": 1}),
    ({"samples": 150}, {"samples_differ": 10}),
    ({"samples": None}, {"samples_differ": 140}),
    ({"p_at_1": [0.5, 0.49]}, {"other_precision": 1}),
    ({"acked_lost": 3}, {"acked_lost": 3}),
    ({"trained_again": 8, "changed_by_joining": 1}, {"trained_again": 8, "changed_by_joining": 1}),
    ({"problems": ["a trainer ended with 4"]}, {"problems": 1}),
])
def test_what_is_a_violation(found: dict[str, Any], violations: dict[str, int]) -> None:
    assert job_loop.violations(WELL | found, KILLS) == violations


@pytest.mark.usefixtures("bin_dir")
def test_a_job_has_its_epochs_whoever_is_killed(tmp_path: pathlib.Path) -> None:
    result = job_loop.run(job_loop.Settings(5, KILLS, joins=2), tmp_path)
    assert result["violations"] == {}, result
    assert {kind: result[f"{kind}_kills"] for kind in KILLS} == KILLS
