"""Labels that are retired are in no prediction, whoever asks and whatever happens to the parts."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Collection
from typing import Any

import processes
import serve_test
import shard_crash_test
import training
from process_case import ProcessCase
from processes import Finished, assert_ended

OK, USAGE = 0, 2
LABELS, MORE_LABELS = 400, 450
Rankings = list[list[dict[str, Any]]]


def without(rankings: Rankings, retired: Collection[int]) -> Rankings:
    return [[guess for guess in ranking if guess["label"] not in retired] for ranking in rankings]


def labels_of(rankings: Rankings) -> set[int]:
    return {guess["label"] for ranking in rankings for guess in ranking}


def rankings_of(asked: Finished) -> Rankings:
    assert_ended(asked, OK)
    return [json.loads(line)["predictions"] for line in asked.stdout.splitlines()]


class RetiredClusterTest(shard_crash_test.ShardTrainingTest):
    """Exact and hashed predictions of a network, on shards with a command log."""

    STEPS = 200

    def set_up(self) -> None:
        super().set_up()
        # Some points are ranked, all are trained on.
        shape, *points = self.data.read_text().splitlines()
        some = points[:100]
        self.asked = self.write("asked.txt", "\n".join([
            f"{len(some)} {shape.split(maxsplit=1)[1]}", *some, ""]))
        self.own = ("--listen", f"127.0.0.1:{processes.free_port()}", "--data-dir",
                    self.directory / "coordinator", "--checkpoint-interval", "off")
        self.start_parts_with("--durability", "log", of_coordinator=self.own)

    def train_on(self, data: pathlib.Path, job: str) -> Finished:
        return self.command("train", "--data", data, "--dim", 16, "--epochs", 1, "--job", job)

    def retire(self, *arguments: object) -> Any:
        retired = self.command("model", "retire", "--yes", *arguments)
        assert_ended(retired, OK)
        return retired.json()

    def ranked(self, *arguments: object) -> Rankings:
        """Of all labels that the model was made for."""
        rankings = rankings_of(
            self.command("predict", "-k", MORE_LABELS, "--data", self.asked, *arguments))
        return without(rankings, range(LABELS, MORE_LABELS))

    def checkpoint(self, *arguments: object) -> Finished:
        finished = self.command("checkpoint", *arguments)
        assert_ended(finished, OK)
        return finished

    def test_neither_kills_nor_checkpoints_nor_growth_bring_them_back(self) -> None:
        assert_ended(self.train_on(self.data, "first"), OK)
        self.checkpoint("create")
        everything = self.ranked()
        gone = {ranking[at]["label"] for ranking in everything[:20] for at in (0, 2)}
        rows = ",".join(map(str, gone))
        assert self.retire("--numbers", rows, "--dry-run")["changed"] is False
        assert self.ranked() == everything
        assert self.retire("--numbers", rows)["retired"] == len(gone)
        expected = without(everything, gone)
        assert self.ranked() == expected
        assert not gone & labels_of(self.ranked("--hashed"))
        for shard in self.shards:
            shard.crash()
        self.coordinator.process.kill()
        self.coordinator = self.start_coordinator(*self.own, shards=self.SHARDS)
        assert self.ranked() == expected
        name = self.command("model", "list").json()["models"][0]["name"]
        assert_ended(self.command("model", "grow", name, "--table", "labels", "--rows",
                                  MORE_LABELS), OK)
        assert self.ranked() == expected
        self.checkpoint("create")
        self.checkpoint("restore", "1", "--yes")
        assert self.ranked() == everything
        self.checkpoint("restore", "2", "--yes")
        assert self.ranked() == expected
        assert self.retire("--numbers", rows, "--restore") == {
            "model": name, "retired_before": len(gone), "retired": 0, "labels": "",
            "freed_bytes": 0, "changed": True}
        restored = self.ranked()
        assert gone <= labels_of(restored)
        assert without(restored, gone) == expected
        assert restored != everything  # they begin anew

    def test_their_rows_are_freed_for_good_and_the_same_after_each_crash(self) -> None:
        assert_ended(self.train_on(self.data, "first"), OK)
        full = self.checkpoint("create").json()
        freed = self.retire("--numbers", "0-199")
        assert freed["freed_bytes"] > 200 * 16 * 4
        expected = self.ranked()
        # From the full image and the log.
        assert self.restarted_digests() == self.restarted_digests()
        assert self.ranked() == expected
        small = self.checkpoint("create").json()
        assert small["rows"] == full["rows"] - 200
        assert_ended(self.train_on(self.data, "second"), OK)
        trained, hashed = self.ranked(), self.ranked("--hashed")
        # From an image that lacks them and the log.
        assert self.restarted_digests() == self.restarted_digests()
        assert (self.ranked(), self.ranked("--hashed")) == (trained, hashed)
        self.retire("--numbers", "0-99", "--restore")
        restored = self.ranked()
        assert self.restarted_digests() == self.restarted_digests()
        assert self.ranked() == restored
        assert self.checkpoint("create").json()["rows"] == full["rows"] - 100
        self.checkpoint("restore", small["checkpoint_id"], "--yes")
        assert self.ranked() == expected

    def test_a_running_training_goes_on_and_a_later_one_leaves_them_out(self) -> None:
        trainer = self.train()
        self.wait_for_steps(trainer, 20)
        assert self.retire("--numbers", "0-99")["labels"] == "0-99"
        self.shards[0].crash()
        self.finish(trainer)
        digests = self.restarted_digests()
        assert self.restarted_digests() == digests
        assert labels_of(self.ranked()) == set(range(100, LABELS))
        self.retire("--numbers", "100-398")
        lines = self.data.read_text().splitlines()
        of_retired = [line for line in lines[1:] if "399" not in line.split()[0].split(",")]
        path = self.write("retired.txt", "\n".join([
            f"{len(of_retired)} {lines[0].split(maxsplit=1)[1]}", *of_retired, ""]))
        for command in (("train", "--job", "late", "--steps", 5, "--seed", 5), ("eval",)):
            assert_ended(self.command(*command, "--data", path), USAGE, "no point has a label")

    def test_what_cannot_be_is_refused_and_changes_nothing(self) -> None:
        assert_ended(self.train_on(self.data, "first"), OK)
        for code, words, flags in (
                (USAGE, "name the labels", ()),
                (USAGE, "names no labels", ("--numbers", "3-1")),
                (USAGE, "has no label 400", ("--numbers", "400")),
                (USAGE, "all labels", ("--numbers", "0-399")),
                (USAGE, "does not know what its labels are called", ("--labels", "plum")),
                (USAGE, "gone.txt", ("--file", self.directory / "gone.txt"))):
            assert_ended(self.command("model", "retire", "--yes", *flags), code, words)
        assert_ended(self.command("model", "retire", "--numbers", "7-9"), USAGE,
                     "learnt of labels 7-9 would be gone, but for checkpoints: add --yes")
        described = self.command("model", "list").json()["models"][0]
        assert not described.get("retired_labels")


class RetiredDirectoryTest(ProcessCase):
    """A memory, trees and their fusion in a directory, which knows its labels by name."""

    def test_names_are_retired_and_restored(self) -> None:
        words = ["apple", "pear", "plum", "cherry"]
        # The fruit of the point, and of its neighbour.
        data = training.write_words(self.directory, words,
                                    [f"{at},{(at + 1) % 4} {at}:1" for at in range(4)] * 20)
        model = ("--model-dir", self.directory / "model")
        assert_ended(self.run_dslide("train", "-q", "--data", data, *model), OK)
        ask = ("predict", "-q", "-o", "json", "-k", 4, "--data", data, *model)
        before = rankings_of(self.run_dslide(*ask))
        assert labels_of(before) == {0, 1, 2, 3}
        gone = self.directory / "gone.txt"
        gone.write_text("plum\ncherry\n")
        retired = self.run_dslide("model", "retire", "-q", "-o", "json", *model, "--file", gone,
                                  "--yes")
        assert_ended(retired, OK)
        assert retired.json()["labels"] == "2-3"
        after = rankings_of(self.run_dslide(*ask))
        assert labels_of(after) == {0, 1}
        assert [guess["label"] for guess in after[1]][0] == 1
        server = serve_test.Serving(self, *model)
        [served] = server.ask({"text": "plum"}, top_k=4)
        assert not {"plum", "cherry"} & {label["name"] for label in served["labels"]}
        unknown = self.run_dslide("model", "retire", *model, "--labels", "apple", "kiwi")
        assert_ended(unknown, USAGE, "has no label \"kiwi\"")
        again = self.run_dslide("train", "-q", "--data", data, *model, "--resume")
        assert_ended(again, OK)
        assert labels_of(rankings_of(self.run_dslide(*ask))) <= {0, 1}
