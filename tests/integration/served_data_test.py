"""`dslide data serve`: trainers that have neither the data nor a disk for it."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import processes
from object_store import ACCESS_KEY, REGION, SECRET_KEY, serving
from process_case import ProcessCase
from processes import Process, assert_ended, free_port, wait_until
from training import generate

OK, FAILURE, USAGE = 0, 1, 2
LOCAL = "127.0.0.1:0"


class DataServing:
    """A `dslide data serve` that is ready."""

    def __init__(self, test: ProcessCase, *arguments: object, listen: str = LOCAL,
                 environment: dict[str, str] | None = None) -> None:
        self.process: Process = test.start("dslide", "data", "serve", "-o", "json", "--admin",
                                           LOCAL, "--listen", listen, *arguments,
                                           environment=environment)
        self.process.wait_for_stdout(r"^\{.*\}$")
        self.parts = json.loads(self.process.stdout)

    def flags(self) -> list[object]:
        return ["--data", f"grpc://{self.parts['grpc']}/data",
                "--eval", f"grpc://{self.parts['grpc']}/eval"]


class ServedDataTest(ProcessCase):
    def set_up(self) -> None:
        self.data = generate(self, points=4000, test_points=500)

    def result_of(self, *arguments: object) -> dict[str, Any]:
        finished = self.run_dslide("train", "-q", "-o", "json", "--threads", 1, *arguments)
        assert_ended(finished, OK)
        result: dict[str, Any] = finished.json()
        return {name: value for name, value in result.items()
                if isinstance(value, float) and "second" not in name}

    def test_what_is_trained_is_equal(self) -> None:
        server = DataServing(self, *self.data.flags())
        network = ["--dim", 16, "--epochs", 4, "--in-flight", 1]
        for settings in (network, []):  # without a spec there are a memory and trees, too
            files = self.result_of(*self.data.flags(), *settings)
            assert files["p_at_1"] > 0
            assert self.result_of(*server.flags(), *settings) == files
        for name in ("data", "eval"):
            info = self.run_dslide("data", "info", f"grpc://{server.parts['grpc']}/{name}", "-o",
                                   "json").json()
            assert info["points"] == server.parts["points"][name]
        assert_ended(server.process.stop(), OK)

    def test_a_store_is_read_once_and_the_server_may_come_back(self) -> None:
        store = self.enter(serving())
        store.signed = True
        store.objects = {"/b/train.txt": self.data.train.read_bytes(),
                         "/b/test.txt": self.data.test.read_bytes()}
        environment = {**os.environ, "DSLIDE_DATA_CACHE": str(self.directory / "cache"),
                       "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                       "AWS_REGION": REGION, "AWS_ENDPOINT_URL": f"http://{store.address}"}
        source = ["--data", "s3://b/train.txt", "--eval", "s3://b/test.txt"]
        listen = f"127.0.0.1:{free_port()}"
        server = DataServing(self, *source, listen=listen, environment=environment)
        cluster = self.start_cluster(shards=2)
        nowhere = {**os.environ, "TMPDIR": str(self.directory / "nowhere")}
        trainers = [self.start("dslide", "train", "-o", "json", "--cluster", cluster.address,
                               "--job", "shared", "--dim", 16, "--epochs", 40, "--threads", 1,
                               "--validation-fraction", 0, "--timeout", "120s", *server.flags(),
                               environment=nowhere) for _ in range(3)]
        for trainer in trainers:
            trainer.wait_for_stderr("Training")  # it has opened the data
        server.process.kill()
        server = DataServing(self, *source, listen=listen, environment=environment)
        steps = 0
        for trainer in trainers:
            finished = trainer.finish()
            assert_ended(finished, OK)
            steps += json.loads(finished.stdout.splitlines()[-1])["steps"]
        assert steps > 0
        [sent] = processes.metric_values(
            processes.fetch(server.parts["admin"]),
            'dslide_data_bytes_total{direction="sent",method="ReadPoints"}')
        assert sent > 0, "the job was over before its server came back"
        size = sum(len(content) for content in store.objects.values())
        assert size <= store.sent <= 1.1 * size
        assert not pathlib.Path(nowhere["TMPDIR"]).exists()

    def test_only_trainers_and_operators_get_points(self) -> None:
        certificates = self.directory / "certificates"
        assert_ended(self.run_dslide("certs", "dev", "--output", certificates), OK)

        def flags(role: str) -> list[object]:
            return ["--tls-ca", certificates / "ca.crt", "--tls-cert",
                    certificates / f"{role}.crt", "--tls-key", certificates / f"{role}.key"]

        assert_ended(self.run_dslide("certs", "issue", "--from", certificates, "--role", "reader",
                                     "--name", "data", "--host", "127.0.0.1"), OK)
        server = DataServing(self, *self.data.flags(), *flags("data"))
        url = f"grpc://{server.parts['grpc']}/data"
        assert_ended(self.run_dslide("data", "info", url, *flags("trainer")), OK)
        assert_ended(self.run_dslide("data", "info", url, *flags("reader")), USAGE,
                     "role reader may not call")
        assert_ended(self.run_dslide("data", "info", url.replace("/data", "/test"),
                                     *flags("operator")), USAGE, "UNKNOWN_DATASET|no data set")

    def test_data_that_cannot_be_read_ends_the_server(self) -> None:
        missing = self.directory / "none.txt"
        finished = self.run_dslide("data", "serve", "--data", missing, "--listen", LOCAL,
                                   "--admin", LOCAL)
        assert_ended(finished, USAGE, "none.txt")

    def test_a_stop_does_not_wait_for_a_store(self) -> None:
        store = self.enter(serving())
        store.objects = {"/set/train.txt": self.data.train.read_bytes()}
        store.holds_after = 1000
        admin = f"127.0.0.1:{free_port()}"
        server = self.start("dslide", "data", "serve", "--data",
                            f"http://{store.address}/set/train.txt", "--listen", LOCAL, "--admin",
                            admin, environment={**os.environ, "DSLIDE_DATA_PATIENCE": "1h"})
        wait_until(lambda: store.sent, lambda: "nobody asked the store", [server])
        code, why = processes.look_at(admin, "/readyz")
        assert (code, "the data is being read" in why) == (503, True), (code, why)
        assert_ended(server.stop(), OK)
