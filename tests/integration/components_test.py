"""Memory, trees and linear rows over processes: shards are killed while rows are solved, and the
result is the undisturbed one, to the bit.

DSLIDE_TEST_SEED sets the seed of the moments (printed by every test).
"""

from __future__ import annotations

import functools
import json
import pathlib
import time
from typing import Any

import failures_test
import shard_crash_test
from processes import Process, assert_ended

# The network that the command puts beside the components of more points.
_SCHEDULE = {"kind": "linear", "final_fraction": 0.05, "decay_steps": 300}
NETWORK: list[dict[str, Any]] = [
    {"name": "input", "role": "embedding", "dim": 128, "bias_row": True,
     "init": {"kind": "gaussian", "scale": 0.05},
     "optimizer": {"learning_rate": 0.01, "schedule": _SCHEDULE}},
    {"name": "labels", "role": "head", "dim": 128, "init": {"kind": "gaussian", "scale": 0.002},
     "optimizer": {"learning_rate": 0.006, "schedule": _SCHEDULE},
     "head": {"max_active": 0, "tail_rows": 32}},
]
NETWORK_TRAINING = {"max_epochs": 25, "input_dropout": 0.2, "hidden_dropout": 0.5}


class ComponentCase(shard_crash_test.ShardTrainingTest):
    """Generated data with few enough labels that a network learns beside the components, if it is
    asked for."""

    test_data: pathlib.Path
    SHAPE = ("--features", 2000, "--labels", 300)

    def make(self, name: str, points: int, first: Any = 0) -> Any:
        path = self.directory / name
        assert_ended(
            self.run_dslide("data", "gen", "--output", path, "--points", points, "--first-point",
                            first, *self.SHAPE), failures_test.OK)
        return path

    @functools.cached_property
    def chosen(self) -> Any:
        """The spec that the command chooses for the data, and a network."""
        path = self.directory / "chosen.json"
        assert_ended(
            self.run_dslide("train", "--data", self.data, "--seed", 5, "--spec-out", path),
            failures_test.OK)
        spec = json.loads(path.read_text())
        spec["tables"] = NETWORK + spec["tables"]
        spec["training"] |= NETWORK_TRAINING
        return json.dumps(spec)

    def spec(self, name: str = "spec", without: Any = (), training: Any = None,
             memory_rows: Any = None, refit: bool = False) -> Any:
        """What the command chooses, but for these roles and settings."""
        path = self.directory / f"{name}.json"
        spec = json.loads(self.chosen)
        spec["name"] = name
        spec["tables"] = [table for table in spec["tables"] if table["role"] not in without]
        spec["training"].update(training or {})
        for table in spec["tables"]:
            if table["role"] == "memory" and memory_rows:
                table["rows"] = memory_rows
            if table["role"] == "linear":
                table["linear"]["refit"] = refit
        path.write_text(json.dumps(spec))
        return path

    def ask(self, command: str, *arguments: object) -> Any:
        asked = self.run_dslide(command, "-o", "json", "--data", self.test_data, *arguments)
        assert_ended(asked, failures_test.OK)
        return [json.loads(line) for line in asked.stdout.splitlines()]


class ComponentsTest(ComponentCase):
    def set_up(self) -> None:
        super().set_up()
        self.data = self.make("wide.txt", 3000)
        self.test_data = self.make("test.txt", 200, first=3000)

    def train(self, *arguments: object) -> Process:
        return self.start("dslide", "train", "-o", "json", "--cluster", self.coordinator.address,
                          "--data", self.data, "--eval", self.test_data, "--seed", 5,
                          "--model-dir", self.directory / "model", "--overwrite", *arguments)

    def finish(self, trainer: Process) -> Any:
        finished = trainer.finish()
        assert_ended(finished, failures_test.OK)
        result = finished.json()
        assert result["points"] == 3000
        return {name: result[name] for name in ("p_at_1", "p_at_5", "components", "linear_entries")}

    def predictions(self) -> Any:
        return self.ask("predict", "--model-dir", self.directory / "model", "--cluster",
                        self.coordinator.address)

    def test_killed_shards_lose_nothing(self) -> None:
        self.start_parts_with("--durability", "log")
        spec = self.spec("model", refit=True)
        expected = self.finish(self.train("--model", spec))
        undisturbed = self.restarted_digests()
        answers = self.predictions()
        self.stop_parts()
        self.keep_aside("undisturbed")

        self.start_parts_with("--durability", "log")
        trainer = self.train("--model", spec)
        # Every phase of the training is hit once: points, network, trees, rows, fusion, rows again.
        for phase in ("sending", "epoch 3:", "building", "rows of tree 2", "fitting", "once more"):
            trainer.wait_for_stderr(phase)
            shard = self.random.choice(self.shards)
            shard.kill()
            time.sleep(self.random.random() / 4)
            shard.start()
        assert self.finish(trainer) == expected
        assert self.restarted_digests() == undisturbed
        assert self.predictions() == answers

    def test_trainers_share_a_job(self) -> None:
        # Four leases an epoch, so that there is something to share.
        spec = self.spec(training={"chunk_samples": 768})
        self.start_parts_with("--durability", "log")
        # At once: one that comes late may find that the other has trained all epochs.
        first = self.train("--job", "shared", "--model", spec)
        second = self.start("dslide", "train", "-o", "json", "--cluster", self.coordinator.address,
                            "--data", self.data, "--eval", self.test_data, "--seed", 5, "--job",
                            "shared", "--model", spec)
        both = [trainer.finish() for trainer in (first, second)]
        for finished in both:
            assert_ended(finished, failures_test.OK)
        said = [finished.stderr for finished in both]
        # Points are sent once and rows are solved once, by whoever was asked to.
        for phase in ("sending 2850 points", "building 4 label trees", "fitting the fusion"):
            assert sum(phase in text for text in said) == 1, said
        # Both have trained, and both see the complete model.
        results = [finished.json() for finished in both]
        assert all(result["steps"] > 0 for result in results), results
        assert results[0]["p_at_1"] == results[1]["p_at_1"]

    def test_a_plan_says_what_a_training_takes(self) -> None:
        shards = 2
        spec = ("--model", self.spec("model", refit=True))
        planned = self.run_dslide("plan", "-o", "json", "--data", self.data, "--seed", 5,
                                  "--shards", shards, *spec)
        assert_ended(planned, failures_test.OK)
        plan = planned.json()
        trained = self.run_dslide("train", "-o", "json", "--data", self.data, "--seed", 5,
                                  "--shards", shards, "--model-dir", self.directory / "model",
                                  *spec)
        assert_ended(trained, failures_test.OK)
        result = trained.json()
        parts = plan["components"]
        # Rows are drawn for the plan: of some thousand weights each kind has, a few percent.
        solved = sum(parts[kind]["weights"] for kind in ("centroids", "clusters", "label_rows"))
        assert abs(solved / result["linear_entries"] - 1) < 0.15, (parts, result)
        # Ids are packed, and the network stops early: an estimate.
        network = parts["bytes_sent"]["network"]
        trained_share = result["epochs"] / self.planned_epochs()
        sent = parts["bytes_sent"]["total"] - network + network * trained_share
        assert abs(sent / result["bytes_sent"] - 1) < 0.25, (parts, result)
        stored = sum(path.stat().st_size for path in (self.directory / "model").glob(
                         "shard-*/images/model.latest/**/*.sst"))
        assert abs(parts["checkpoint_bytes"] / stored - 1) < 0.1, (parts, stored)

    def planned_epochs(self) -> Any:
        return json.loads(self.chosen)["training"]["max_epochs"]


class StreamTest(ComponentCase):
    """Half of the points are trained on, the other half streams in."""

    ROWS = 2000

    def set_up(self) -> None:
        super().set_up()
        self.data = self.make("first.txt", 1500)
        self.later = [self.make("second.txt", 750, first=1500),
                      self.make("third.txt", 750, first=2250)]
        self.test_data = self.make("test.txt", 200, first=3000)
        self.times = [self.directory / name for name in ("second.times", "third.times")]
        for number, path in enumerate(self.times):
            path.write_text("".join(f"{1000 * number + i}\n" for i in range(750)))
        without = ("embedding", "head")
        self.specs = {"by-count": self.spec("by-count", without, memory_rows=self.ROWS),
                      "by-age": self.spec("by-age", without, memory_rows=4000)}

    def of_model(self, name: str) -> Any:
        return ("--cluster", self.coordinator.address, "--model-dir", self.directory / name)

    def train_model_of(self, name: str) -> None:
        assert_ended(
            self.run_dslide("train", "--data", self.data, "--model", self.specs[name],
                            "--overwrite", *self.of_model(name)), failures_test.OK)

    def append(self, name: str, part: int, *arguments: object) -> Process:
        if name == "by-age":
            # Those without a time are forgotten with the second part, and 500 of the first part.
            arguments += ("--times", self.times[part], "--keep-age", 1249)
        if part == 1:
            arguments += ("--solve",)
        return self.start("dslide", "append", "-o", "json", "--data", self.later[part],
                          *self.of_model(name), *arguments)

    def appended(self, process: Process) -> Any:
        finished = process.finish()
        assert_ended(finished, failures_test.OK)
        result = finished.json()
        return [result[key] for key in ("points", "first_point", "last_point",
                                        "memory_points_before", "memory_points")]

    def stream(self, disturb: Any) -> Any:
        """What the models answer after they have got all points, and what shards hold then."""
        self.start_parts_with("--durability", "log")
        before = {}
        for name in self.specs:
            self.train_model_of(name)
            before[name] = self.ask("eval", *self.of_model(name))[0]["p_at_5"]
        kept = {"by-count": [2000, 2000], "by-age": [2250, 1000]}
        for part in range(2):
            for name in self.specs:
                process = self.append(name, part)
                disturb(process)
                first = 1500 + 750 * part
                had = kept[name][0] if part else 1500
                assert self.appended(process) == [750, first, first + 749, had, kept[name][part]]
        digests = self.restarted_digests()
        answers = {name: self.ask("predict", *self.of_model(name)) for name in self.specs}
        return before, digests, answers

    def kill_a_shard(self, appending: Any) -> None:
        appending.wait_for_stderr("should it be cut off")
        shard = self.random.choice(self.shards)
        shard.kill()
        time.sleep(self.random.random() / 4)
        shard.start()

    def test_appended_points_survive_kills_and_are_worth_it(self) -> None:
        before, digests, answers = self.stream(disturb=lambda process: None)
        accuracy = self.ask("eval", *self.of_model("by-count"))[0]["p_at_5"]
        print(f"P@5 with the first half {before['by-count']}, with the stream {accuracy}")
        assert accuracy > before["by-count"]
        # A repetition finds everything there.
        for name in self.specs:
            kept = {"by-count": 2000, "by-age": 1000}[name]
            repeated = self.append(name, 1, "--first-point", 2250)
            assert self.appended(repeated) == [750, 2250, 2999, kept, kept]
            assert self.ask("predict", *self.of_model(name)) == answers[name]
        # One that is cut off, and repeated as it said.
        more = ["append", "--data", self.data, *self.of_model("by-count")]
        cut = self.start("dslide", *more)
        first = cut.wait_for_stderr(r"repeat the command with (--first-point) (\d+)").groups()
        cut.kill()
        assert_ended(self.run_dslide(*more, *first), failures_test.OK)
        after_cut = self.ask("predict", *self.of_model("by-count"))
        self.stop_parts()
        self.keep_aside("undisturbed")

        again = self.stream(disturb=self.kill_a_shard)
        assert again == (before, digests, answers)
        more = ["append", "--data", self.data, *self.of_model("by-count")]
        assert_ended(self.run_dslide(*more), failures_test.OK)
        assert self.ask("predict", *self.of_model("by-count")) == after_cut
        assert after_cut != answers["by-count"]

    def test_room_for_a_stream_changes_no_prediction(self) -> None:
        answers = []
        for name, rows in (("exact", 1500), ("roomy", self.ROWS)):
            spec = self.spec(name, without=("embedding", "head"), memory_rows=rows)
            trained = self.run_dslide("train", "-o", "json", "--data", self.data, "--model", spec,
                                      "--model-dir", self.directory / name)
            assert_ended(trained, failures_test.OK)
            answers.append([trained.json()["components"],
                            self.ask("predict", "--model-dir", self.directory / name)])
        assert answers[0] == answers[1]
        # An embedded model takes new points, too, and keeps them.
        embedded = ("--model-dir", self.directory / "roomy")
        added = self.run_dslide("append", "--data", self.later[0], *embedded, "-o", "json")
        assert_ended(added, failures_test.OK)
        assert added.json()["memory_points"] == self.ROWS
        added = self.run_dslide("append", "--data", self.later[1], *embedded, "-o", "json")
        assert added.json()["first_point"] == 2250
        append = ("append", "--data", self.later[1], *embedded)
        self.assert_refused(failures_test.USAGE, "--keep-age needs the times",
                            command=[*append, "--keep-age", 5])
        self.assert_refused(failures_test.USAGE, "--first-point -1: must be at least 0",
                            command=[*append, "--first-point", -1])
        self.assert_refused(failures_test.USAGE, "would have the numbers 4294967000 to",
                            command=[*append, "--first-point", 4294967000])
        self.assert_refused(failures_test.USAGE, r"first.txt:1:1: found .*a whole number",
                            command=[*append, "--times", self.data])
