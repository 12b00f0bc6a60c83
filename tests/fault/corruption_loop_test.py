"""The corruption loop judges the real programs: good damage, planted silent damage, and a crash."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from corrupter import Record
from corruption_loop import (
    BAD,
    WAYS,
    Damage,
    Judgement,
    Subject,
    Tally,
    compared,
    damage_of,
    refusal,
)
from processes import Finished

SEED, ROUNDS = 20, 12


@pytest.fixture(scope="module")
def way_of(bin_dir: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A way by its name; all damage copies of the same model."""
    with contextlib.ExitStack() as stack:
        subject = stack.enter_context(Subject(tmp_path_factory.mktemp("damage")))
        yield lambda name: WAYS[name](subject, stack)


def judged(way: Any, change: Callable[[pathlib.Path], object]) -> Judgement:
    """What becomes of a change of the directory."""

    def damage(directory: pathlib.Path) -> Record:
        change(directory)
        return {}

    judgement: Judgement = way.round(damage)[1]
    return judgement


@pytest.mark.parametrize("name", ["start", "load"])
def test_rows_are_never_silently_wrong(name: str, way_of: Any) -> None:
    way, outcomes = way_of(name), set()
    for number in range(ROUNDS):
        damage: Damage = damage_of(SEED, name, number, way.older)
        record, (outcome, remark) = way.round(damage)
        assert outcome not in BAD, (record, remark)
        outcomes.add(outcome)
    # A load compares every file of an image; beside images, a start has others.
    assert outcomes == ({"refused", "equal"} if name == "start" else {"refused"})


@pytest.mark.parametrize("name", ["start", "load"])
def test_older_rows_are_called_silent(name: str, way_of: Any) -> None:
    """No checksum inside the directory can see it: all of it is older."""
    way = way_of(name)

    def take_older(directory: pathlib.Path) -> None:
        shutil.rmtree(directory)
        shutil.copytree(way.older, directory)

    outcome, remark = judged(way, take_older)
    assert outcome == "silent", remark


def test_a_shard_that_starts_without_its_model_is_called_silent(way_of: Any) -> None:
    way = way_of("start")

    def remove(*names: str) -> Callable[[pathlib.Path], None]:
        def change(directory: pathlib.Path) -> None:
            for name in names:
                shutil.rmtree(directory / "images" / name)

        return change

    # What the clean stop has left beside the rows belongs to them.
    outcome, remark = judged(way, remove("model.latest"))
    assert outcome == "refused", remark
    outcome, remark = judged(way, remove("stopped", "model.latest"))
    assert outcome == "silent"
    assert "UNKNOWN_MODEL" in remark


def test_other_catalogues_and_other_models_are_called_silent(way_of: Any) -> None:
    def forget(directory: pathlib.Path) -> None:
        shutil.rmtree(directory)
        directory.mkdir()

    assert judged(way_of("catalog"), forget)[0] == "silent"
    model = way_of("model")

    def name_otherwise(directory: pathlib.Path) -> None:
        names = "".join(f"label {number}\n" for number in range(400))
        (directory / "labels.txt").write_text(names, encoding="ascii")
        (directory / "FILES").unlink()  # what seals the texts

    assert judged(model, name_otherwise)[0] == "silent"
    assert judged(model, lambda directory: (directory / "model.json").unlink())[0] == "refused"


SAID = "ERROR cannot start error=\"it is damaged\""


@pytest.mark.parametrize(("code", "stderr", "outcome"), [
    (4, SAID, "refused"), (4, "", "mute"), (0, SAID, "crashed"), (-11, SAID, "crashed")])
def test_refusals(code: int, stderr: str, outcome: str) -> None:
    assert refusal(Finished("shard", code, "", stderr, 0.1, pathlib.Path()), 4)[0] == outcome


def test_comparison_and_tally() -> None:
    assert compared({"a": 1}, {"a": 1})[0] == "equal"
    assert compared({}, {"a": 1})[0] == "silent"
    tally = Tally()
    record = {"way": "start", "round": 0, "file": "f", "file_kind": "sst", "kind": "flip"}
    for outcome in ("refused", "refused", "equal", "silent", "hung"):
        tally.add(record, outcome, "")
    assert (tally.total(), tally.total("silent")) == (5, 1)
    assert tally.ways() == {"start": {"refused": 2, "equal": 1, "silent": 1, "hung": 1}}
    assert [bad["outcome"] for bad in tally.bad] == ["silent", "hung"]
