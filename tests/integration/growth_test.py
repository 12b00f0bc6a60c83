"""Models grow while they are trained: nobody starts again, no kill or checkpoint is in the way."""

from __future__ import annotations

import pathlib
import signal
from typing import Any

import failures_test
import processes
import shard_crash_test
from processes import Finished, assert_ended

OK, FAILURE, USAGE = failures_test.OK, failures_test.FAILURE, 2
COLUMNS = ("--text-column", "text", "--label-column", "label")
LABELS, MORE_LABELS = 300, 500
FEATURES, MORE_FEATURES = 200, 260


class GrowthTest(shard_crash_test.ShardTrainingTest):
    STEPS = 900  # longer than two commands take beside it, on a busy machine

    def set_up(self) -> None:
        super().set_up()
        self.data = self.generate("first.txt", LABELS, FEATURES)
        self.more = self.generate("more.txt", MORE_LABELS, MORE_FEATURES)

    def generate(self, name: str, labels: int, features: int) -> pathlib.Path:
        path = self.directory / name
        made = self.run_dslide("data", "gen", "--output", path, "--points", 600, "--labels", labels,
                               "--features", features, "--seed", 3)
        assert_ended(made, OK)
        return path

    def train_on(self, data: pathlib.Path, job: str, *arguments: object) -> Finished:
        return self.command("train", "--data", data, "--dim", 16, "--epochs", 1, "--job", job,
                            *arguments)

    def grow(self, rows: int, *arguments: object) -> Any:
        grown = self.command("model", "grow", self.model()["name"], "--table", "labels", "--rows",
                             rows, *arguments)
        assert_ended(grown, OK)
        return grown.json()

    def model(self) -> Any:
        models = self.command("model", "list").json()["models"]
        assert len(models) == 1
        return models[0]

    def rows(self) -> list[tuple[int, int]]:
        """Of input and labels: all, and those that they were made for."""
        return [(table["rows"], table.get("base_rows", table["rows"]))
                for table in self.model()["tables"]]

    def test_a_running_training_goes_on_through_growth_and_kills(self) -> None:
        self.start_parts_with("--durability", "log")
        trainer = self.train()
        self.wait_for_steps(trainer, 20)
        assert self.grow(400, "--dry-run")["grown"] is False
        assert self.grow(400) == {"model": self.model()["name"], "table": "labels",
                                  "rows_before": LABELS, "rows": 400, "grown": True}
        self.shards[0].crash()
        self.wait_for_steps(trainer, 100)
        # One is away while another growth is asked for.
        self.shards[1].kill()
        growth = self.start("dslide", "model", "grow", self.model()["name"], "--table", "labels",
                            "--rows", MORE_LABELS, "--cluster", self.coordinator.address)
        self.shards[1].start()
        assert_ended(growth.finish(), OK)
        self.finish(trainer)
        digests = self.restarted_digests()
        assert self.restarted_digests() == digests
        assert self.rows()[1] == (MORE_LABELS, LABELS)
        for shard in self.shards:
            shard.note_loss()
            assert shard.acked_loss == 0

    def test_a_stream_with_labels_that_nobody_has_seen_trains_on(self) -> None:
        self.start_parts_with("--durability", "log")
        assert_ended(self.train_on(self.data, "first"), OK)
        refused = self.train_on(self.more, "more")
        assert_ended(refused, FAILURE, "has 260 features", "--grow", "dslide model grow")
        assert_ended(self.train_on(self.more, "more", "--grow"), OK)
        assert self.rows() == [(MORE_FEATURES + 1, FEATURES + 1), (MORE_LABELS, LABELS)]
        # Data of before is still its data, and so are points of both for who asks.
        assert_ended(self.train_on(self.data, "again"), OK)
        for data in (self.data, self.more):
            assert_ended(self.command("eval", "--data", data), OK)
        shrunk = self.command("model", "grow", self.model()["name"], "--table", "labels", "--rows",
                              LABELS)
        assert_ended(shrunk, FAILURE, "never shrink")

    def test_room_to_spare_takes_later_data_as_it_is(self) -> None:
        self.start_parts_with("--durability", "log")
        room = ("--label-headroom", 250, "--feature-headroom", 100)
        assert_ended(self.train_on(self.data, "first", *room), OK)
        expected = [(FEATURES + 101, FEATURES + 1), (LABELS + 250, LABELS)]
        assert self.rows() == expected
        assert_ended(self.train_on(self.more, "more"), OK)
        assert self.rows() == expected

    def write_csv(self, name: str, *labels: str, points: int = 40) -> pathlib.Path:
        """Two words of each label, one of all, and one of the file; `points` of each label."""
        rows = [f"a {label} {label[::-1]} {name},{label}\n"
                for label in labels for _ in range(points)]
        path = self.directory / f"{name}.csv"
        path.write_text("text,label\n" + "".join(rows))
        return path

    def imported(self, name: str, source: pathlib.Path, *arguments: object) -> pathlib.Path:
        output = self.directory / name
        assert_ended(self.run_dslide("data", "import", "--csv", source, *COLUMNS, "--output",
                                     output, *arguments), OK)
        return output

    def test_csv_files_keep_the_numbers_of_a_cluster(self) -> None:
        self.start_parts_with("--durability", "log")
        settings = ("--name", "fruit", *COLUMNS)
        learn = (*settings, "--grow", "--dim", 16, "--epochs", 20, "--batch-size", 8,
                 "--patience", 0, "--validation-fraction", 0)
        of_cluster = ("--cluster", self.coordinator.address)
        first = self.write_csv("first", "plum", "apple")
        assert_ended(self.train_on(first, "first", *settings), OK)
        # Words and labels that nobody has seen, and some that the model has; twice.
        for number, labels in ((1, ("fig", "apple", "date")), (2, ("kiwi", "date"))):
            path = self.write_csv(f"later{number}", *labels)
            refused = self.train_on(path, f"small-{number}", *settings)
            assert_ended(refused, FAILURE, str(path), "--grow")
            assert_ended(self.command("train", "--data", path, "--job", f"job-{number}", *learn),
                         OK)
            evaluated = self.command("eval", "--name", "fruit", "--data", path, *COLUMNS)
            assert_ended(evaluated, OK)
            assert evaluated.json()["p_at_1"] == 1.0
        again = self.imported("again", first, *of_cluster, "--name", "fruit")
        known = (again / "labels.txt").read_text().split()
        assert known == ["apple", "plum", "date", "fig", "kiwi"]
        features = (again / "features.txt").read_text().split()
        assert features[:6] == ["a", "first", "apple", "elppa", "mulp", "plum"]
        assert len(features) == 14
        # The same, as a data set: nothing is new to it.
        assert_ended(self.train_on(again / "train.txt", "again", "--name", "fruit"), OK)
        assert self.rows() == [(15, 7), (5, 2)]

    def test_two_trainings_bring_names_at_the_same_time(self) -> None:
        self.start_parts_with("--durability", "log")
        settings = ("--name", "fruit", *COLUMNS)
        first = self.write_csv("first", "plum", "apple")
        assert_ended(self.train_on(first, "first", *settings), OK)
        # The later one knows the names of before when the other one comes and goes.
        scratch = self.directory / "scratch"
        scratch.mkdir()
        path = self.write_csv("late", "kiwi", "date", points=40_000)
        late = self.start("dslide", "train", "--data", path, "--cluster", self.coordinator.address,
                          "--job", "late", *settings, "--grow", "--dim", 16, "--steps", 60,
                          "--batch-size", 64, environment={"TMPDIR": str(scratch)})
        processes.wait_until(lambda: any(scratch.iterdir()), lambda: "an import", [late])
        late.send(signal.SIGSTOP)
        try:
            assert_ended(self.train_on(self.write_csv("early", "fig", "date", "lime"), "early",
                                       *settings, "--grow"), OK)
        finally:
            late.send(signal.SIGCONT)
        assert_ended(late.finish(), OK, "taking the next numbers")
        known = (self.imported("known", first, "--cluster", self.coordinator.address, "--name",
                               "fruit") / "labels.txt").read_text().split()
        assert known == ["apple", "plum", "date", "fig", "lime", "kiwi"]
        assert self.rows()[1] == (6, 2)
        evaluated = self.command("eval", "--name", "fruit", "--data", path, *COLUMNS)
        assert_ended(evaluated, OK)
        assert evaluated.json()["p_at_1"] == 1.0

    def test_csv_files_keep_the_numbers_of_a_directory(self) -> None:
        model = self.directory / "model"
        learn = ("--dim", 16, "--epochs", 20, "--patience", 0, "--validation-fraction", 0, "-q",
                 "--model-dir", model, *COLUMNS)
        first = self.write_csv("first", "plum", "apple")
        assert_ended(self.run_dslide("train", "--data", first, *learn), OK)
        further = (*learn, "--resume", "--grow")
        second = self.write_csv("second", "fig", "apple", "date")
        assert_ended(self.run_dslide("train", "--data", second, *further), OK)
        third = self.imported("third", self.write_csv("late", "kiwi", "date"), "--model-dir", model)
        assert_ended(self.run_dslide("train", "--data", third / "train.txt", *further), OK)
        labels = (model / "labels.txt").read_text().split()
        assert labels == ["apple", "plum", "date", "fig", "kiwi"]
        assert (model / "label_counts.txt").read_text().split() == ["80", *["40"] * 5]
        # A set that was made without the model's names is of another one.
        other = self.imported("other", self.write_csv("other", "kiwi", "date", "fig", "apple",
                                                      "plum"))
        refused = self.run_dslide("train", "--data", other / "train.txt", *further)
        assert_ended(refused, USAGE, "learns from other data", "dslide data import --model-dir")
        cut = self.run_dslide("train", "--data", second, *further, "--tokenizer", "characters")
        assert_ended(cut, USAGE, "cut otherwise")

    def test_data_with_other_names_grows_nothing(self) -> None:
        self.start_parts_with("--durability", "log")
        named = ("--name", "fruit")
        first = self.imported("first", self.write_csv("one", "plum", "apple"))
        more = self.imported("more", self.write_csv("two", "fig", "apple", "date"))
        assert_ended(self.train_on(first / "train.txt", "first", *named), OK)
        before = self.rows()
        assert_ended(self.train_on(more / "train.txt", "more", "--grow", *named), FAILURE,
                     "ASSETS_DIFFER", "learns from other data")
        assert self.rows() == before

    def test_a_checkpoint_has_the_rows_of_its_time(self) -> None:
        self.start_parts_with("--durability", "log", of_coordinator=(
            "--data-dir", self.directory / "coordinator", "--checkpoint-interval", "off"))
        assert_ended(self.train_on(self.data, "first"), OK)
        assert_ended(self.command("checkpoint", "create"), OK)
        self.grow(MORE_LABELS)
        assert_ended(self.command("checkpoint", "create"), OK)
        assert_ended(self.command("checkpoint", "restore", "1", "--yes"), OK)
        assert self.rows()[1] == (LABELS, LABELS)
        # Of then, on the shards too: they have one size, and can grow again.
        assert self.grow(400)["rows_before"] == LABELS
        assert_ended(self.command("checkpoint", "restore", "2", "--yes"), OK)
        assert self.rows()[1] == (MORE_LABELS, LABELS)
        assert_ended(self.train_on(self.more, "more", "--grow"), OK)
