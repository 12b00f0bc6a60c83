"""What `./run fault` reports: portions, failures, and null for what does not exist."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import fault_run
import pytest
from fault_run import PARTS, PLANS, FaultRun, Figures, Untested, batches
from kill_schedule import CLIENT, KILL, SHARD

Deed = Callable[[FaultRun], Figures]


@pytest.fixture
def run_of(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FaultRun]:
    """A quick run of parts that are only pretended; all went well but for `deeds`."""
    def run(only: tuple[str, ...] = tuple(PARTS), **deeds: Deed) -> FaultRun:
        def pretended(keys: tuple[str, ...]) -> Deed:
            return lambda _: dict.fromkeys(keys, 0)

        well = {part: pretended(keys) for part, keys in PARTS.items()}
        monkeypatch.setattr(fault_run, "_DEEDS", well | deeds)
        found = FaultRun(PLANS["quick"], 7, tmp_path, only)
        found.run()
        result = found.result("quick", 1.0)
        assert json.loads(json.dumps(result)) == result
        assert {key for keys in PARTS.values() for key in keys} <= result.keys()
        return found

    return run


def test_a_run_in_which_all_went_well(run_of: Callable[..., FaultRun]) -> None:
    run = run_of()
    assert (run.failures, run.untested, run.figures["acked_lost"]) == ([], [], 0)


def test_what_does_not_exist_or_was_not_asked_for_is_null_and_said(
        run_of: Callable[..., FaultRun]) -> None:
    def absent(_: FaultRun) -> Figures:
        raise Untested("build it first")

    run = run_of(only=("poison", "restores"), restores=absent)
    assert run.failures == []
    assert "restores, cut_mismatches: not tested: build it first" in run.untested
    for part, keys in PARTS.items():
        for key in keys:
            assert (run.figures[key] is None) == (part != "poison")


def test_a_broken_promise_and_a_loop_that_does_not_end_are_failures(
        run_of: Callable[..., FaultRun]) -> None:
    def broken(run: FaultRun) -> Figures:
        run.fail("poison", "a trace")
        return {"poison": 3, "poison_mismatches": 1}

    def hangs(_: FaultRun) -> Figures:
        raise AssertionError("not within 30 s: the cluster is ready")

    run = run_of(poison=broken, kills=hangs)
    assert run.failures == ["kills, seed 7: not within 30 s: the cluster is ready",
                            "poison, seed 7: a trace"]
    assert run.failed == ["kills", "poison"]
    assert (run.figures["poison_mismatches"], run.figures["acked_lost"]) == (1, None)


def test_parts_and_numbers_are_named(monkeypatch: pytest.MonkeyPatch,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    assert fault_run.parts_of("kills, planted") == ("kills", "planted")
    monkeypatch.setattr("sys.argv", ["fault_run.py", "quick", "--bin-dir", ".", "--only", "luck"])
    with pytest.raises(SystemExit):
        fault_run.main()
    assert "unknown part 'luck'; there are: kills, jobs, increments," in capsys.readouterr().err
    plan = fault_run.changed(PLANS["quick"], ["poison=5", "failpoint=shard.image"])
    assert (plan.poison, plan.failpoint) == (5, "shard.image")
    with pytest.raises(SystemExit, match="--set strikes: there is no such number"):
        fault_run.changed(plan, ["strikes=5"])


def test_portions() -> None:
    strikes = {(SHARD, KILL): 120, (CLIENT, KILL): 7}
    parts = list(batches(strikes))
    assert all(sum(part.values()) <= 51 for part in parts)
    assert {deed: sum(part.get(deed, 0) for part in parts) for deed in strikes} == strikes
    assert list(batches({(SHARD, KILL): 0})) == [{}]
