"""`dslide serve` as a process: over a directory and over clusters, while shards come and go."""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import urllib.error
import urllib.request
from typing import Any

import processes
import shard_crash_test
import tls_cluster_test
import training
from process_case import ProcessCase
from processes import PATIENCE_SECONDS, Process, assert_ended

OK, USAGE, UNREACHABLE = 0, 2, 4
NETWORK = ["--dim", 16, "--seed", 5, "--threads", 1, "--epochs", 2]


class Serving:
    """A `dslide serve` that answers."""

    def __init__(self, test: ProcessCase, *arguments: object) -> None:
        self.process: Process = test.start(
            "dslide", "serve", "-o", "json", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
            "--admin", "127.0.0.1:0", "--threads", 1, *arguments)
        self.process.wait_for_stdout(r"^\{.*\}$")
        self.parts = json.loads(self.process.stdout)

    def ask(self, *queries: Any, traceparent: str = "", **fields: Any) -> Any:
        """The results, or the error."""
        request = urllib.request.Request(
            f"http://{self.parts['http']}/v1/predict",
            json.dumps({"queries": queries, **fields}).encode(),
            {"Content-Type": "application/json", "traceparent": traceparent})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PATIENCE_SECONDS) as answer:
                return json.load(answer)["results"]
        except urllib.error.HTTPError as error:
            return json.load(error)["error"]

    def metric(self, name: str) -> float:
        return processes.metric(self.parts["admin"], name) or 0


def points_of(path: pathlib.Path, count: int) -> list[Any]:
    """The first points of a file as queries."""
    queries = []
    for line in path.read_text().splitlines()[1:count + 1]:
        pairs = [pair.split(":") for pair in line.split(" ")[1:]]
        queries.append({"features": {"ids": [int(feature) for feature, _ in pairs],
                                     "values": [float(value) for _, value in pairs]}})
    return queries


def assert_predicted(results: Any, finished: processes.Finished) -> None:
    """What is served is what `dslide predict` says of the same points."""
    assert_ended(finished, OK)
    said = [json.loads(line)["predictions"] for line in finished.stdout.splitlines()]
    assert len(results) <= len(said)
    for result, predictions in zip(results, said):
        assert [label["id"] for label in result["labels"]] == [
            label["label"] for label in predictions]
        for label, prediction in zip(result["labels"], predictions):
            assert abs(label["score"] - prediction["logit"]) < 1e-4


class ServedDirectoryTest(ProcessCase):
    def train_words(self) -> pathlib.Path:
        """A model of words: each word is the name of a label, too."""
        words = ["apple", "pear", "plum", "cherry"]
        data = training.write_words(self.directory, words,
                                    [f"{at} {at}:1" for at in range(4)] * 20)
        model = self.directory / "model"
        assert_ended(self.run_dslide("train", "-q", "--data", data,
                                     "--model-dir", model, *NETWORK[2:]), OK)
        return model

    def test_texts_are_answered_by_name_until_the_server_is_drained(self) -> None:
        model = self.train_words()
        server = Serving(self, "--model-dir", model, "--drain-delay", "500ms")
        plum, named, unheard = server.ask(
            {"text": "a plum"}, {"features": {"names": ["pear", "kiwi"]}}, {"text": "kiwi"},
            top_k=2)
        assert plum["labels"][0]["name"] == "plum"
        assert plum["unknown"] == ["a"]
        assert plum["scored_rows"] >= 1
        assert named["labels"][0]["name"] == "pear"
        assert named["unknown"] == unheard["unknown"] == ["kiwi"]
        assert unheard["labels"] == []
        predicted = self.run_dslide("predict", "--model-dir", self.copy(model), "--text", "plum",
                                    "-k", 2, "-o", "json")
        assert_predicted(server.ask({"text": "plum"}, top_k=2), predicted)

        with concurrent.futures.ThreadPoolExecutor(8) as callers:
            answers = [callers.submit(server.ask, {"text": "plum"}) for _ in range(400)]
            processes.wait_until(lambda: any(answer.done() for answer in answers), lambda: "one")
            server.process.send(15)
            for answer in answers:
                # Who comes after the end is turned away by the system.
                if answer.exception() is None:
                    assert answer.result()[0]["labels"][0]["name"] == "plum"
        assert sum(answer.exception() is None for answer in answers) > 0
        assert_ended(server.process.finish(), OK)

    def copy(self, model: pathlib.Path) -> pathlib.Path:
        """A directory is one process's."""
        copied = model.with_name("copied")
        assert_ended(self.run_dslide("train", "-q", "--data", self.directory / "train.txt",
                                     "--model-dir", copied, *NETWORK[2:]), OK)
        return copied

    def test_wrong_settings_are_named(self) -> None:
        for flags, said in ((["--http", "0.0.0.0:0"], "--http-plaintext"),
                            (["--listen", "0.0.0.0:0"], "--insecure"),
                            (["--batch-wait", "soon"], "--batch-wait"), ([], "name the model")):
            assert_ended(self.run_dslide("serve", *flags), USAGE, said)


class ServedClusterTest(shard_crash_test.ShardTrainingTest):
    STEPS = 40

    def test_shards_may_go_and_come_elsewhere(self) -> None:
        self.start_parts_with("--durability", "log")
        assert_ended(self.train().finish(), OK)
        server = Serving(self, "--cluster", self.coordinator.address, "--refresh", "200ms")
        queries = points_of(self.data, 5)
        before = server.ask(*queries)
        assert len(before) == len(queries)
        assert all(result["mode"] == "PREDICT_MODE_EXACT" for result in before)
        for shard in self.shards:
            shard.kill()
        processes.wait_until(
            lambda: processes.look_at(server.parts["admin"], "/readyz")[0] == 503,
            lambda: "not ready without shards", alive=[server.process])
        for shard in self.shards:
            shard.move()
        processes.wait_until(
            lambda: processes.look_at(server.parts["admin"], "/readyz")[0] == 200,
            lambda: "ready again", alive=[server.process])
        assert server.ask(*queries) == before
        assert server.metric("dslide_serve_model_opens_total") >= 2
        assert_ended(server.process.stop(), OK)

    def test_it_waits_for_its_cluster_and_its_model(self) -> None:
        address = f"127.0.0.1:{processes.free_port()}"
        admin = f"127.0.0.1:{processes.free_port()}"
        server = self.start(
            "dslide", "serve", "-o", "json", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
            "--admin", admin, "--threads", 1, "--cluster", address)
        server.wait_for_stderr("waiting for the model.* why=.*start the coordinator")
        assert processes.look_at(admin, "/livez")[0] == 200
        self.start_parts_with(of_coordinator=("--listen", address))
        server.wait_for_stderr("waiting for the model.* why=.*has no model")
        code, why = processes.look_at(admin, "/readyz")
        assert code == 503
        assert "has no model" in why
        assert_ended(self.train().finish(), OK)
        server.wait_for_stdout(r"^\{.*\}$")
        processes.wait_until(lambda: processes.look_at(admin, "/readyz")[0] == 200,
                             lambda: "ready", alive=[server])
        assert_ended(server.stop(), OK)

    def test_it_waits_no_longer_than_it_is_told(self) -> None:
        nobody = f"127.0.0.1:{processes.free_port()}"
        flags = ("--listen", "127.0.0.1:0", "--http", "", "--admin", "127.0.0.1:0", "--cluster",
                 nobody)
        assert_ended(self.run_dslide("serve", *flags, "--wait", "1s"), UNREACHABLE,
                     r"waited for 1s \(--wait\)")
        # What it waits for is left to whoever is tired of it.
        server = self.start("dslide", "serve", *flags)
        server.wait_for_stderr("waiting for the model")
        assert_ended(server.stop(), OK)


class ServedSecurelyTest(tls_cluster_test.TlsCase):
    def test_the_role_reader_is_enough(self) -> None:
        data = training.generate(self, points=2000, test_points=200)
        coordinator, shards = self.start_tls_cluster()
        for name, settings in (("net", [*self.SETTINGS, "--epochs", 2]),
                               ("components", ["--seed", 5])):
            trained = self.start("dslide", "train", "-q", "-o", "json", "--cluster",
                                 coordinator.address, "--data", data.train, "--name", name,
                                 "--model-dir", self.directory / name, *settings,
                                 *self.flags("trainer"))
            assert_ended(trained.finish(), OK)
            asked = ["--cluster", coordinator.address, "--model-dir", self.directory / name,
                     "--name", name, *self.flags("reader")]
            server = Serving(self, *asked)
            predicted = self.run_dslide("predict", "--data", data.test, "-k", 5, "-o", "json",
                                        *asked)
            # More than are ranked together.
            results = server.ask(*points_of(data.test, 100), top_k=5)
            assert_predicted(results, predicted)
            if name == "net":
                hidden = {"hidden": {"values": [0.5] * 64}}
                assert len(server.ask(hidden, mode="PREDICT_MODE_HASHED")[0]["labels"]) == 10
            else:
                assert results[0]["mode"] == "PREDICT_MODE_NEIGHBOURS"
                assert server.ask({"hidden": {"values": [1]}})["reason"] == "WRONG_INPUT"
            assert_ended(server.process.stop(), OK)
        for part in [*shards, coordinator]:
            assert processes.metric(part.admin, "dslide_server_denied_calls_total") == 0
