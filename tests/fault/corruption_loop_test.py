"""The corruption loop judges the real programs: good damage, planted silent damage, and a crash."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Iterator

import processes
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

SEED = 20
ROUNDS = 12


class CorruptionLoopTest:
    subject: Subject
    stack: contextlib.ExitStack

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _subject(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        with contextlib.ExitStack() as cls.stack:
            cls.subject = Subject(tmp_path_factory.mktemp("damage"))
            yield

    def rounds(self, name: str) -> Iterator[tuple[Record, Judgement]]:
        way = WAYS[name](self.subject, self.stack)
        for number in range(ROUNDS):
            yield way.round(damage_of(SEED, name, number, way.older))

    def assert_rows_are_never_silently_wrong(self, name: str) -> None:
        outcomes = set()
        for record, (outcome, remark) in self.rounds(name):
            assert outcome not in BAD, (record, remark)
            outcomes.add(outcome)
        assert outcomes == {"refused", "equal"}

    def test_a_shard_starts_on_damaged_files_with_its_rows_or_not_at_all(self) -> None:
        self.assert_rows_are_never_silently_wrong("start")

    def test_a_damaged_checkpoint_changes_no_row(self) -> None:
        self.assert_rows_are_never_silently_wrong("load")

    def older_rows(self, part: pathlib.Path | None) -> Damage:
        """Damage that no checksum inside the directory can see: all of it is older."""

        def damage(directory: pathlib.Path) -> Record:
            assert part is not None
            shutil.rmtree(directory)
            shutil.copytree(part, directory)
            return {"kind": "older", "file": "all of them"}

        return damage

    def test_older_rows_are_called_silent(self) -> None:
        for name in ("start", "load"):
            way = WAYS[name](self.subject, self.stack)
            _, (outcome, remark) = way.round(self.older_rows(way.older))
            assert outcome == "silent", remark

    def test_a_shard_that_starts_without_its_model_is_called_silent(self) -> None:
        way = WAYS["start"](self.subject, self.stack)

        def damage(directory: pathlib.Path) -> Record:
            shutil.rmtree(directory / "images" / "model.latest")
            return {}

        # What the clean stop has left beside the rows belongs to them.
        _, (outcome, remark) = way.round(damage)
        assert outcome == "refused", remark

        def damage_both(directory: pathlib.Path) -> Record:
            shutil.rmtree(directory / "images" / "stopped")
            return damage(directory)

        _, (outcome, remark) = way.round(damage_both)
        assert outcome == "silent"
        assert "UNKNOWN_MODEL" in remark

    def test_other_catalogues_and_other_models_are_called_silent(self) -> None:
        catalog = WAYS["catalog"](self.subject, self.stack)

        def forget(directory: pathlib.Path) -> Record:
            shutil.rmtree(directory)
            directory.mkdir()
            return {}

        assert catalog.round(forget)[1][0] == "silent"
        model = WAYS["model"](self.subject, self.stack)

        def name_otherwise(directory: pathlib.Path) -> Record:
            names = "".join(f"label {number}\n" for number in range(400))
            (directory / "labels.txt").write_text(names, encoding="ascii")
            (directory / "FILES").unlink()  # what seals the texts
            return {}

        assert model.round(name_otherwise)[1][0] == "silent"

        def forget_the_model(directory: pathlib.Path) -> Record:
            (directory / "model.json").unlink()
            return {}

        assert model.round(forget_the_model)[1][0] == "refused"


class JudgementTest:
    def finished(self, code: int, stderr: str) -> processes.Finished:
        return processes.Finished("shard", code, "", stderr, 0.1, pathlib.Path())

    def test_refusals(self) -> None:
        said = "ERROR cannot start error=\"it is damaged\""
        assert refusal(self.finished(4, said), 4)[0] == "refused"
        assert refusal(self.finished(4, ""), 4)[0] == "mute"
        assert refusal(self.finished(0, said), 4)[0] == "crashed"
        assert refusal(self.finished(-11, said), 4)[0] == "crashed"

    def test_comparison(self) -> None:
        assert compared({"a": 1}, {"a": 1})[0] == "equal"
        assert compared({}, {"a": 1})[0] == "silent"

    def test_tally(self) -> None:
        tally = Tally()
        record = {"way": "start", "round": 0, "file": "f", "file_kind": "sst", "kind": "flip",
                  "offset": 1}
        for outcome in ("refused", "refused", "equal", "silent", "hung"):
            tally.add(record, outcome, "")
        result = tally.result(seed=5)
        counts = [result[key] for key in ("corruptions", "silent", "hung", "refused")]
        assert counts == [5, 1, 1, 2]
        assert [bad["outcome"] for bad in result["bad"]] == ["silent", "hung"]
