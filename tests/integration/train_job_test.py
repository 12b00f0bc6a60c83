"""A trainer in a pod of Kubeflow Trainer: what it reports, to whom, and that it never waits."""

from __future__ import annotations

import contextlib
import http.server
import json
import pathlib
import ssl
import threading
from collections.abc import Iterator
from typing import Any

from process_case import ProcessCase
from processes import Finished, assert_ended

OK = 0
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ml/trainjobs/run/status"


class Controller:
    """Takes statuses, over TLS where it has a certificate; answers with `code`."""

    def __init__(self, code: int = 200) -> None:
        self.code = code
        self.heard: list[tuple[str, dict[str, str], Any]] = []  # path, headers, content

    @contextlib.contextmanager
    def serving(self, certificates: pathlib.Path | None = None) -> Iterator[str]:
        """The URL of the status."""
        controller = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                controller.heard.append((self.path, dict(self.headers), json.loads(content)))
                said = json.dumps({"kind": "Status", "message": "no such pod"}).encode()
                self.send_response(controller.code)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            if certificates is not None:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(certificates / "coordinator.crt",
                                        certificates / "coordinator.key")
                server.socket = context.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            scheme = "http" if certificates is None else "https"
            yield f"{scheme}://localhost:{server.server_port}{PATH}"
            server.shutdown()


class TrainJobTest(ProcessCase):
    def set_up(self) -> None:
        self.data = self.directory / "data.txt"
        made = self.run_dslide("data", "gen", "--output", self.data, "--points", 400, "--features",
                               200, "--labels", 50)
        assert_ended(made, OK)
        self.token = self.directory / "token"
        self.token.write_text("of-this-pod\n", encoding="ascii")

    def train(self, url: str, **variables: str) -> Finished:
        trainer = self.start(
            "dslide", "train", "--data", self.data, "--epochs", 3, "--dim", 16, "--threads", 1,
            environment={"KUBEFLOW_TRAINER_STATUS_URL": url,
                         "KUBEFLOW_TRAINER_STATUS_TOKEN": str(self.token), **variables})
        finished = trainer.finish()
        assert_ended(finished, OK)
        return finished

    def test_the_controller_hears_how_far_it_is(self) -> None:
        certificates = self.directory / "certs"
        assert_ended(self.run_dslide("certs", "dev", "--output", certificates), OK)
        controller = Controller()
        with controller.serving(certificates) as url:
            finished = self.train(url, KUBEFLOW_TRAINER_STATUS_CA_CERT=str(certificates / "ca.crt"),
                                  JOB_COMPLETION_INDEX="0")
        assert "TrainJob" not in finished.stderr, finished
        paths, headers, contents = zip(*controller.heard)
        assert set(paths) == {PATH}
        assert {one["Authorization"] for one in headers} == {"Bearer of-this-pod"}
        statuses = [content["trainerStatus"] for content in contents]
        # None before the first step was counted.
        percents = [status.get("progressPercentage", 0) for status in statuses]
        assert percents == sorted(percents)
        assert percents[-1] == 100
        assert 100 not in percents[:-1]
        last = statuses[-1]
        assert last["estimatedRemainingSeconds"] == 0
        metrics = {metric["name"]: metric["value"] for metric in last["metrics"]}
        assert metrics["epoch"] == "3"
        assert 0 <= float(metrics["p_at_1"]) <= 1

    def test_training_goes_on_when_nobody_takes_it(self) -> None:
        controller = Controller(code=403)
        with controller.serving() as url:
            finished = self.train(url)
        assert controller.heard
        assert finished.stderr.count("the status of the TrainJob was not taken") == 1, finished
        assert "403" in finished.stderr
        assert "no such pod" in finished.stderr

    def test_a_controller_that_is_not_there_is_warned_of(self) -> None:
        finished = self.train("http://127.0.0.1:9" + PATH)
        assert finished.stderr.count("the status of the TrainJob was not taken") == 1, finished

    def test_a_token_is_not_sent_in_plaintext(self) -> None:
        finished = self.train("http://status.example.com/run")
        assert "want https://" in finished.stderr, finished

    def test_the_first_pod_speaks_for_all(self) -> None:
        controller = Controller()
        with controller.serving() as url:
            self.train(url, JOB_COMPLETION_INDEX="1")
        assert not controller.heard
