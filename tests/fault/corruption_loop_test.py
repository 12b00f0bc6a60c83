"""The corruption loop judges the real programs: good damage, planted silent damage, and a crash.

usage: corruption_loop_test.py --bin-dir DIR [unittest arguments]
"""

import contextlib
import pathlib
import shutil
import tempfile
import unittest

import fault_paths  # noqa: F401
import processes
from corruption_loop import (BAD, WAYS, Subject, Tally, compared, damage_of, refusal, split)

SEED = 20
ROUNDS = 12


class CorruptionLoopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = cls.enterClassContext(contextlib.ExitStack())
        directory = cls.stack.enter_context(tempfile.TemporaryDirectory(prefix="dslide-test-"))
        cls.subject = Subject(pathlib.Path(directory))

    def rounds(self, name):
        way = WAYS[name](self.subject, self.stack)
        for number in range(ROUNDS):
            yield way.round(damage_of(SEED, name, number, way.older))

    def assert_rows_are_never_silently_wrong(self, name):
        outcomes = set()
        for record, (outcome, remark) in self.rounds(name):
            self.assertNotIn(outcome, BAD, (record, remark))
            outcomes.add(outcome)
        self.assertEqual(outcomes, {"refused", "equal"})

    def test_a_shard_starts_on_damaged_files_with_its_rows_or_not_at_all(self):
        self.assert_rows_are_never_silently_wrong("start")

    def test_a_damaged_checkpoint_changes_no_row(self):
        self.assert_rows_are_never_silently_wrong("load")

    def older_rows(self, part):
        """Damage that no checksum inside the directory can see: all of it is older."""

        def damage(directory):
            shutil.rmtree(directory)
            shutil.copytree(part, directory)
            return {"kind": "older", "file": "all of them"}

        return damage

    def test_older_rows_are_called_silent(self):
        for name in ("start", "load"):
            with self.subTest(way=name):
                way = WAYS[name](self.subject, self.stack)
                _, (outcome, remark) = way.round(self.older_rows(way.older))
                self.assertEqual(outcome, "silent", remark)

    def test_a_shard_that_starts_without_its_model_is_called_silent(self):
        way = WAYS["start"](self.subject, self.stack)

        def damage(directory):
            shutil.rmtree(directory / "model")
            return {}

        # What the clean stop has left beside the rows belongs to them.
        _, (outcome, remark) = way.round(damage)
        self.assertEqual(outcome, "refused", remark)

        def damage_both(directory):
            (directory / "STOPPED").unlink()
            return damage(directory)

        _, (outcome, remark) = way.round(damage_both)
        self.assertEqual(outcome, "silent")
        self.assertIn("UNKNOWN_MODEL", remark)

    def test_other_catalogues_and_other_models_are_called_silent(self):
        catalog = WAYS["catalog"](self.subject, self.stack)

        def forget(directory):
            shutil.rmtree(directory)
            directory.mkdir()
            return {}

        self.assertEqual(catalog.round(forget)[1][0], "silent")
        model = WAYS["model"](self.subject, self.stack)

        def name_otherwise(directory):
            names = "".join(f"label {number}\n" for number in range(400))
            (directory / "labels.txt").write_text(names, encoding="ascii")
            (directory / "FILES").unlink()  # what seals the texts
            return {}

        self.assertEqual(model.round(name_otherwise)[1][0], "silent")
        self.assertEqual(model.round(lambda directory: (directory / "model.json").unlink())[1][0],
                         "refused")


class JudgementTest(unittest.TestCase):
    def finished(self, code, stderr):
        return processes.Finished("shard", code, "", stderr, 0.1, pathlib.Path())

    def test_refusals(self):
        said = "ERROR cannot start error=\"it is damaged\""
        self.assertEqual(refusal(self.finished(4, said), 4)[0], "refused")
        self.assertEqual(refusal(self.finished(4, ""), 4)[0], "mute")
        self.assertEqual(refusal(self.finished(0, said), 4)[0], "crashed")
        self.assertEqual(refusal(self.finished(-11, said), 4)[0], "crashed")

    def test_comparison(self):
        self.assertEqual(compared({"a": 1}, {"a": 1})[0], "equal")
        self.assertEqual(compared({}, {"a": 1})[0], "silent")

    def test_tally(self):
        tally = Tally()
        record = {"way": "start", "round": 0, "file": "f", "file_kind": "sst", "kind": "flip",
                  "offset": 1}
        for outcome in ("refused", "refused", "equal", "silent", "hung"):
            tally.add(record, outcome, "")
        result = tally.result(seed=5)
        counts = [result[key] for key in ("corruptions", "silent", "hung", "refused")]
        self.assertEqual(counts, [5, 1, 1, 2])
        self.assertEqual([bad["outcome"] for bad in result["bad"]], ["silent", "hung"])

    def test_split(self):
        self.assertEqual(split(10, ["a", "b", "c"]), {"a": 4, "b": 3, "c": 3})


if __name__ == "__main__":
    processes.main()
