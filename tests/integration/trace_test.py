"""Spans of commands, requests and calls, as a collector of OpenTelemetry gets them."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from typing import Any

import processes
import serve_test
import training
from process_case import ProcessCase
from processes import Cluster, assert_ended

OK, USAGE = 0, 2
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ASKED = "5cf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


class Collector:
    """Takes spans over HTTP."""

    def __init__(self) -> None:
        self._bodies: list[Any] = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # noqa: N802
                length = int(self.headers["Content-Length"])
                collector._bodies.append((self.path, json.loads(self.rfile.read(length))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def spans(self) -> list[dict[str, Any]]:
        """All of the traces so far, each with the name of its `service`."""
        found = []
        for path, body in self._bodies:
            assert path == "/v1/traces"
            for of_process in body["resourceSpans"]:
                attributes = {pair["key"]: pair["value"]["stringValue"]
                              for pair in of_process["resource"]["attributes"]}
                for span in of_process["scopeSpans"][0]["spans"]:
                    found.append({"service": attributes["service.name"], **span})
        return found


class TraceTest(ProcessCase):
    def test_a_trace_goes_through_all_programs(self) -> None:
        collector = Collector()
        self.enter(contextlib.closing(collector))
        to_collector = {"DSLIDE_OTLP_ENDPOINT": collector.endpoint}
        data = training.generate(self, points=600, test_points=50)
        cluster = Cluster(self.start(
            "dslide", "up", "-o", "json", "--listen", f"127.0.0.1:{processes.free_port()}",
            "--shards", 2, environment=to_collector))
        trained = self.start("dslide", "train", "-q", "--data", data.train, "--cluster",
                             cluster.address, *serve_test.NETWORK,
                             environment={**to_collector,
                                          "TRACEPARENT": f"00-{TRACE}-{PARENT}-01"})
        assert_ended(trained.finish(), OK)
        server = serve_test.Serving(self, "--cluster", cluster.address, "--trace-sample", 0,
                                    "--otlp-endpoint", collector.endpoint)
        (query,) = serve_test.points_of(data.test, 1)
        server.ask(query)  # is in no trace
        server.ask(query, traceparent=f"00-{ASKED}-{PARENT}-01")
        assert_ended(server.process.stop(), OK)
        assert_ended(cluster.process.stop(), OK)

        spans = collector.spans()
        assert {span["traceId"] for span in spans} == {TRACE, ASKED}
        names = {span["spanId"]: span["name"] for span in spans}
        (command,) = (span for span in spans if span["name"] == "dslide train")
        (request,) = (span for span in spans if span["name"] == "POST /v1/predict")
        assert command["parentSpanId"] == request["parentSpanId"] == PARENT
        assert (command["traceId"], request["traceId"]) == (TRACE, ASKED)
        below = {(span["service"], span["name"]): names.get(span["parentSpanId"]) for span in spans}
        coordinator, shard = "dslide.v1.CoordinatorService", "dslide.v1.ShardService"
        assert below["dslide-coordinator", f"{coordinator}/RegisterModel"] == "dslide train"
        # What the coordinator asks shards for is below what it was asked for, also later.
        assert below["dslide-shard", f"{shard}/CreateModel"] == f"{coordinator}/RegisterModel"
        assert (below["dslide-shard", f"{shard}/WriteCheckpoint"]
                == f"{coordinator}/CreateCheckpoint")
        assert below["dslide-shard", f"{shard}/Step"] == "dslide train"
        assert below["dslide-shard", f"{shard}/TopK"] == "POST /v1/predict"
        steps = [span for span in spans if span["name"] == f"{shard}/Step"]
        assert len(steps) == 2
        for span in spans:
            assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        assert all("dslide.request_id" in [pair["key"] for pair in span["attributes"]]
                   for span in steps)

    def test_a_wrong_endpoint_is_named(self) -> None:
        for program in ("dslide-shard", "dslide-coordinator"):
            assert_ended(self.start(program, "--otlp-endpoint", "collector:4318").finish(), USAGE,
                         "otlp-endpoint collector:4318")
        assert_ended(self.run_dslide("version", "--otlp-endpoint", "collector:4318"), USAGE,
                     "otlp-endpoint collector:4318")
