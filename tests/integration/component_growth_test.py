"""Models with a memory and label trees get labels that they were not made for: shards are killed
between, and one shard says what two say.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import failures_test
import shard_crash_test
from processes import Finished, assert_ended

OK, FAILURE, USAGE = failures_test.OK, failures_test.FAILURE, 2
FRUIT = ("apple", "cherry", "fig", "grape", "lemon", "lime", "mango", "olive", "peach", "plum")
LATER = ("kiwi", "quince", "melon")
LATEST = ("papaya", "guava")
POINTS = 12
SETTINGS = ("--name", "fruit", "--text-column", "text", "--label-column", "label")


class ComponentGrowthTest(shard_crash_test.ShardTrainingTest):
    def set_up(self) -> None:
        super().set_up()
        self.first = self.write_csv("first", FRUIT)
        # Of a label that is known, too.
        self.second = self.write_csv("second", (*LATER, "fig"))
        self.everything = self.directory / "everything.csv"
        parts = [self.first, self.second, self.write_csv("third", LATEST)]
        lines = [line for path in parts for line in path.read_text().splitlines()[1:]]
        self.everything.write_text("\n".join(["text,label", *lines]) + "\n")

    def write_csv(self, name: str, labels: tuple[str, ...]) -> pathlib.Path:
        rows = [f"a {label} {label[::-1]} {label}{point % 4} {name} w{point},{label}\n"
                for point in range(POINTS) for label in labels]
        path = self.directory / f"{name}.csv"
        path.write_text("text,label\n" + "".join(rows))
        return path

    def spec(self) -> pathlib.Path:
        """What the command chooses, with trees that have clusters for so few labels."""
        path = self.directory / "spec.json"
        if path.exists():
            return path
        assert_ended(self.run_dslide("train", "--data", self.first, "-q", "--spec-out", path,
                                     *SETTINGS), OK)
        spec = json.loads(path.read_text())
        for table in spec["tables"]:
            if table["role"] == "label_trees":
                table["trees"] |= {"leaf_labels": 2, "depth": -1, "level_step": 1}
            if table["role"] in ("label_trees", "linear"):
                table["rows"] = 0
        path.write_text(json.dumps(spec))
        return path

    def memory(self) -> Any:
        models = self.command("model", "list").json()["models"]
        return next(table for table in models[0]["tables"] if table["role"] == "memory")

    def predictions(self, *model: object) -> Any:
        """For a text of each label: its names and logits."""
        texts = self.directory / "texts.csv"
        texts.write_text("text\n" + "".join(
            f"a {name[::-1]} {name}\n" for name in (*FRUIT, *LATER, *LATEST)))
        asked = self.ended(self.run_dslide("predict", "-o", "json", "-k", 4, "--data", texts,
                                           "--text-column", "text", *model))
        return [json.loads(line)["predictions"] for line in asked.stdout.splitlines()]

    def of_cluster(self) -> Any:
        return self.predictions("--cluster", self.coordinator.address, "--name", "fruit")

    @staticmethod
    def ended(finished: Finished) -> Finished:
        assert_ended(finished, OK)
        return finished

    @staticmethod
    def best(predictions: Any) -> list[str]:
        return [ranked[0]["name"] if ranked else "" for ranked in predictions]

    def grow_twice(self, shards: int, kills: bool) -> Any:
        """By points that are appended, and by a training on all of them."""
        self.start_parts_with("--durability", "log", shards=shards)

        def kill(number: int) -> None:
            if kills:
                self.shards[number].crash()

        learn = ("--model", self.spec(), *SETTINGS, "--seed", 5)
        self.ended(self.command("train", "--data", self.first, "--job", "first", *learn))
        kill(0)
        refused = self.command("train", "--data", self.everything, "--job", "more", *learn)
        assert_ended(refused, FAILURE, "--grow", "dslide model grow fruit")
        grown = self.ended(self.command("model", "grow", "fruit", "--table", "points", "--rows",
                                        POINTS * 14)).json()
        assert grown["rows_before"] == POINTS * 10
        kill(shards - 1)
        appended = self.ended(self.command("append", "--data", self.second, *SETTINGS,
                                           "--grow")).json()
        assert (appended["new_labels"], appended["memory_points"]) == (3, POINTS * 14)
        # Neighbours know them at once, trees when rows are solved.
        known = [*FRUIT, *LATER]
        assert self.best(self.of_cluster())[:len(known)] == known
        kill(0)
        again = self.ended(self.command("append", "--data", self.second, *SETTINGS, "--grow",
                                        "--solve", "--first-point", POINTS * 10)).json()
        assert (again["new_labels"], again["memory_points"]) == (0, POINTS * 14)
        kill(shards - 1)
        between = self.of_cluster()
        assert self.best(between)[:len(known)] == known
        self.ended(self.command("train", "--data", self.everything, "--job", "everything", "--grow",
                                *SETTINGS))
        kill(0)
        assert self.memory()["memory"]["base_labels"] == len(FRUIT)
        assert self.memory()["memory"]["labels"] == len(known) + len(LATEST)
        assert self.memory()["rows"] == POINTS * 16
        after = self.of_cluster()
        assert self.best(after) == [*known, *LATEST]
        evaluated = self.ended(self.command("eval", "--data", self.everything, *SETTINGS)).json()
        assert evaluated["p_at_1"] == 1.0
        self.stop_parts()
        self.keep_aside(f"of-{shards}-{kills}")
        return between, after

    def test_new_labels_join_over_kills_and_for_any_number_of_shards(self) -> None:
        one = self.grow_twice(shards=1, kills=False)
        assert self.grow_twice(shards=2, kills=True) == one

    def test_a_directory_grows(self) -> None:
        model = ("--model-dir", self.directory / "model")
        learn = (*model, "-q", *SETTINGS)
        self.ended(self.run_dslide("train", "--data", self.first, *learn, "--seed", 5))
        # What the model was made for is the shape of data that may have no others.
        refused = self.run_dslide("train", "--data", self.second, *learn, "--resume")
        assert_ended(refused, FAILURE, "--grow")
        self.ended(self.run_dslide("append", "--data", self.second, *model, "-q", *SETTINGS[2:],
                                   "--grow", "--solve"))
        known = [*FRUIT, *LATER]
        assert self.best(self.predictions(*model))[10:13] == list(LATER)
        assert (self.directory / "model" / "labels.txt").read_text().split()[:13] == [
            *sorted(FRUIT), *sorted(LATER)]
        self.ended(self.run_dslide("train", "--data", self.everything, *learn, "--resume",
                                   "--grow"))
        assert self.best(self.predictions(*model)) == [*known, *LATEST]

    def test_points_of_another_order_are_refused(self) -> None:
        self.start_parts_with("--durability", "log", shards=1)
        self.ended(self.command("train", "--data", self.first, "--job", "first", *SETTINGS))
        other = self.write_csv("other", (*LATER, *FRUIT))
        refused = self.command("train", "--data", other, "--job", "other", "--grow", *SETTINGS)
        assert_ended(refused, USAGE, "points never change", "dslide append --grow")

    def test_a_model_grows_by_no_points_that_it_would_not_take(self) -> None:
        self.start_parts_with("--durability", "log", shards=1)
        self.ended(self.command("train", "--data", self.first, "--job", "first", *SETTINGS))
        before = self.command("model", "list").json()
        texts = self.of_cluster()
        cut = self.directory / "cut.csv"
        cut.write_text(self.second.read_text() + '"a kiwi')
        none = self.directory / "none.csv"
        none.write_text("text,label\na grapefruit,\n")
        times = self.directory / "times.txt"
        times.write_text("1\n2\n")
        for words, data, flags in (
                ("cut.csv:", cut, ()),
                ("no point to train on", none, ()),
                ("times.txt", self.second, ("--times", times)),
                ("4294967290", self.second, ("--first-point", 4294967290))):
            refused = self.command("append", "--data", data, *SETTINGS, "--grow", *flags)
            assert_ended(refused, USAGE, words)
            assert self.command("model", "list").json() == before, words
        assert self.of_cluster() == texts
