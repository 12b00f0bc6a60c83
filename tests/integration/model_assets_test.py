"""What a model of a cluster is called: given by its trainer, asked for from anywhere, kept."""

from __future__ import annotations

import csv
import json
import pathlib
import shutil

from process_case import ProcessCase
from processes import Server, assert_ended

OK, FAILURE, DATA_LOSS = 0, 1, 5
WORDS = {"rivers": ["Flüsse", "RIVER", "delta"], "code": ["compiler", "Straße", "string"],
         "cooking": ["Salt", "naïve", "oven"]}
COLUMNS = ("--text-column", "text", "--label-column", "label")
TEXT = "a RIVER with a delta, and some Salt"


class ModelAssetsTest(ProcessCase):
    def write_csv(self, name: str, **renamed: str) -> pathlib.Path:
        path = self.directory / name
        with path.open("w", newline="", encoding="utf-8") as out:
            rows = csv.writer(out)
            rows.writerow(("text", "label"))
            for label, words in WORDS.items():
                for i in range(40):
                    rows.writerow((f"{words[i % 3]} {words[(i + 1) % 3]} number{i % 7}",
                                   renamed.get(label, label)))
        return path

    def cluster(self, name: str) -> Server:
        """Two shards and a coordinator on empty directories."""
        directory = self.directory / name
        coordinator = self.start_coordinator("--data-dir", directory / "coordinator",
                                             "--checkpoint-interval", "off", shards=2)
        for shard in range(2):
            self.start_shard(coordinator, "--data-dir", directory / f"shard-{shard}")
        return coordinator

    def on(self, coordinator: Server, command: str, *arguments: object, code: int = OK) -> str:
        ended = self.run_dslide(*command.split(), *arguments, "--cluster", coordinator.address)
        assert_ended(ended, code)
        return ended.stdout if code == OK else ended.stderr

    def train(self, coordinator: Server, data: pathlib.Path, *arguments: object,
              code: int = OK) -> str:
        return self.on(coordinator, "train -q", "--data", data, *COLUMNS, "--dim", 8, "--epochs", 3,
                       "--transform", "tf-idf", *arguments, code=code)

    def ask(self, coordinator: Server, *arguments: object) -> str:
        return self.on(coordinator, "predict -q -o json", "--text", TEXT, *arguments)

    def test_texts_are_asked_for_without_the_directory_of_the_training(self) -> None:
        coordinator, data = self.cluster("first"), self.write_csv("own.csv")
        kept = self.directory / "kept"
        self.train(coordinator, data, "--model-dir", kept)
        predicted = self.ask(coordinator, "--model-dir", kept)
        measured = self.on(coordinator, "eval -q", "--data", data, *COLUMNS, "--model-dir", kept,
                           "-o", "json")
        shutil.rmtree(kept)
        assert self.ask(coordinator) == predicted
        named = json.loads(predicted)["predictions"]
        assert {label["name"] for label in named} == set(WORDS), predicted
        again = json.loads(self.on(coordinator, "eval -q", "--data", data, *COLUMNS, "-o", "json"))
        assert again["p_at_1"] == json.loads(measured)["p_at_1"]
        assert again["psp_at_1"] is not None
        listed = json.loads(self.on(coordinator, "model describe model --assets -o json"))
        assert [asset["name"] for asset in listed["assets"]] == [
            "data.json", "features.tsv", "label_counts.txt", "labels.txt", "tokenizer.json"]

        exported = self.directory / "exported"
        self.on(coordinator, "model export -q", "--output", exported)
        self.on(coordinator, "model import -q", exported, "--name", "second")
        assert self.ask(coordinator, "--name", "second") == predicted

    def test_trainers_of_a_model_have_its_names(self) -> None:
        coordinator, data = self.cluster("first"), self.write_csv("own.csv")
        self.train(coordinator, data)
        self.train(coordinator, data, "--job", "further")
        other = self.write_csv("other.csv", rivers="streams")
        refused = self.train(coordinator, other, "--job", "other", code=FAILURE)
        # What the model knows keeps its number, so this is a label too many.
        for word in ("has 3 rows", "has 4 labels", "--grow", "MODEL_DIFFERS"):
            assert word in refused, refused
        predicted = self.ask(coordinator)
        self.on(coordinator, "model delete model --yes")
        self.train(coordinator, other, "--job", "anew")
        assert "streams" in self.ask(coordinator)
        assert "streams" not in predicted

    def test_checkpoints_and_their_copies_have_the_names(self) -> None:
        coordinator, data = self.cluster("first"), self.write_csv("own.csv")
        self.train(coordinator, data)
        predicted = self.ask(coordinator)
        self.on(coordinator, "checkpoint create -q")
        self.on(coordinator, "checkpoint verify -q")
        copies = self.directory / "copies"
        self.on(coordinator, "checkpoint copy -q", "--to", copies)
        [names] = copies.glob("checkpoint-*/assets/model/labels.txt")
        assert sorted(names.read_text().split()) == sorted(WORDS)
        self.on(coordinator, "model delete model --yes")
        self.on(coordinator, "checkpoint restore -q --yes")
        assert self.ask(coordinator) == predicted

        fresh = self.cluster("fresh")
        self.on(fresh, "checkpoint restore -q --yes", "--from", copies)
        assert self.ask(fresh) == predicted

        names.write_text(names.read_text().replace("r", "R", 1))
        assert_ended(self.run_dslide("doctor", "--data-dir", names.parents[2]), DATA_LOSS)
