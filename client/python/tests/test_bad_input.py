"""What is wrong is refused with the thing, the value and the remedy, soon, and nothing changes."""

from __future__ import annotations

import pickle
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest
from conftest import SOON

import dslide
from dslide.v1 import coordinator_pb2, coordinator_pb2_grpc, shard_pb2, shard_pb2_grpc

ONES = np.ones((1, 24), np.float32)
NAN = np.full((1, 24), np.nan, np.float32)
Call = Callable[[dslide.Client, dslide.Model], Any]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda c, m: m.gather("nope", [1]),
            dslide.InvalidArgumentError,
            ["'nope'", "it has: input, hidden, labels"],
        ),
        (lambda c, m: c.model("nope"), dslide.NotFoundError, ["'nope'", "it has: "]),
        (
            lambda c, m: m.gather("labels", [5000]),
            dslide.InvalidArgumentError,
            ["5000", "[0, 5000)", "'labels'"],
        ),
        (lambda c, m: m.gather("labels", [-1]), dslide.InvalidArgumentError, ["-1", "[0, 5000)"]),
        (
            lambda c, m: m.gather("labels", [0.5]),
            dslide.InvalidArgumentError,
            ["float64", "integers"],
        ),
        (lambda c, m: m.gather("labels", [[1]]), dslide.InvalidArgumentError, ["one dimension"]),
        (
            lambda c, m: m.scatter("labels", [1], np.ones((1, 23))),
            dslide.InvalidArgumentError,
            ["[1, 23]", "[1, 24]"],
        ),
        (
            lambda c, m: m.scatter("labels", [1, 2], ONES),
            dslide.InvalidArgumentError,
            ["[1, 24]", "[2, 24]"],
        ),
        (
            lambda c, m: m.scatter("labels", [1], NAN),
            dslide.InvalidArgumentError,
            ["nan at [0, 0]", "finite"],
        ),
        (
            lambda c, m: m.scatter("labels", [1], np.full((1, 24), 1e39)),
            dslide.InvalidArgumentError,
            ["inf at [0, 0]", "finite"],
        ),
        (
            lambda c, m: m.scatter("labels", [1], ONES * 1e20),
            dslide.InvalidArgumentError,
            ["OVER_MAGNITUDE"],
        ),
        (
            lambda c, m: m.scatter("labels", [1], [["x"] * 24]),
            dslide.InvalidArgumentError,
            ["must be numbers"],
        ),
        (
            lambda c, m: m.scatter("labels", [1], ONES, mode="replace"),
            dslide.InvalidArgumentError,
            ["'replace'", "assign"],
        ),
        (
            lambda c, m: m.scatter("input", [1], np.ones((1, 16)), biases=[1.0]),
            dslide.InvalidArgumentError,
            ["'input'", "no biases"],
        ),
        (
            lambda c, m: m.top_k("labels", np.ones((2, 3)), 5),
            dslide.InvalidArgumentError,
            ["[2, 3]", "[any, 24]"],
        ),
        (
            lambda c, m: m.top_k("labels", ONES, 5000),
            dslide.InvalidArgumentError,
            ["5000", "[1, 1024]"],
        ),
        (
            lambda c, m: m.top_k("labels", ONES, 5, rows=[[1, 7, 1]]),
            dslide.InvalidArgumentError,
            ["rows[0]", "row 1 twice"],
        ),
        (
            lambda c, m: m.top_k("labels", ONES, 5, rows=[[1], [2]]),
            dslide.InvalidArgumentError,
            ["rows of 2 queries", "1 hidden"],
        ),
        (
            lambda c, m: m.top_k("labels", ONES, 5, rows=[[1, 2]], offsets=[[0.5]]),
            dslide.InvalidArgumentError,
            ["offsets[0]", "[2]"],
        ),
        (
            lambda c, m: m.top_k("labels", ONES, 5, offsets=[[0.5]]),
            dslide.InvalidArgumentError,
            ["without rows"],
        ),
        (
            lambda c, m: m.top_k("labels", ONES, 5, budget=100),
            dslide.InvalidArgumentError,
            ["budget 100", "hashed"],
        ),
        (
            lambda c, m: m.top_k("input", np.ones((1, 16)), 5),
            dslide.InvalidArgumentError,
            ["input"],
        ),
        (lambda c, m: m.restore_checkpoint("nothing"), dslide.NotFoundError, ["nothing"]),
        (lambda c, m: m.save_checkpoint("No Name"), dslide.InvalidArgumentError, ["No Name"]),
        (lambda c, m: c.metrics(9), dslide.InvalidArgumentError, ["9", "[0, 2)"]),
        (
            lambda c, m: c.create_model({"tables": [{"role": "embeding"}]}),
            dslide.InvalidArgumentError,
            ["tables[0].role", "'embeding'", "embedding"],
        ),
        (
            lambda c, m: c.create_model({"tables": [{"role": "head", "head": {"max_activ": 3}}]}),
            dslide.InvalidArgumentError,
            ["max_activ", "tables[0].head"],
        ),
    ],
)
def test_bad_input(
    cluster: dslide.LocalCluster,
    model: dslide.Model,
    call: Call,
    kind: type[dslide.DslideError],
    words: list[str],
) -> None:
    before = model.gather("labels", [1, 2])
    start = time.monotonic()
    with pytest.raises(kind) as caught:
        call(cluster, model)
    assert time.monotonic() - start < SOON
    text = f"{caught.value} {caught.value.reason}"
    for word in words:
        assert word in text
    assert caught.value.applied is False
    np.testing.assert_array_equal(model.gather("labels", [1, 2]), before)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_nobody_listens() -> None:
    start = time.monotonic()
    with pytest.raises(dslide.UnavailableError, match="start the coordinator") as caught:
        dslide.connect("127.0.0.1:1")
    assert time.monotonic() - start < SOON
    assert "127.0.0.1:1" in str(caught.value)
    assert isinstance(caught.value, ConnectionError)


def test_somebody_listens_and_says_nothing(silent_port: int) -> None:
    start = time.monotonic()
    with pytest.raises(dslide.DslideError, match=f"127.0.0.1:{silent_port}.*start the coordinator"):
        dslide.connect(f"127.0.0.1:{silent_port}")
    assert time.monotonic() - start < SOON


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("nonsense", "host:port"),
        ("host:99999", "host:port"),
        ("10.1.2.3:7000", "insecure=True"),
    ],
)
def test_addresses(address: str, words: str) -> None:
    with pytest.raises(dslide.InvalidArgumentError, match=words):
        dslide.connect(address)


class _OtherVersion(
    coordinator_pb2_grpc.CoordinatorServiceServicer, shard_pb2_grpc.ShardServiceServicer
):
    """A coordinator and its shard in one server."""

    address = ""

    def GetClusterMap(self, request: Any, context: Any) -> Any:
        return coordinator_pb2.GetClusterMapResponse(
            shards=[coordinator_pb2.ShardInfo(address=self.address, capacity_weight=1)]
        )

    def GetServerInfo(self, request: Any, context: Any) -> Any:
        return shard_pb2.GetServerInfoResponse(version="7.3.1")


@pytest.mark.parametrize(
    ("speaks", "words"),
    [
        (True, "7.3.1.*pip install 'dslide==7.3.*'"),
        (False, "does not speak dslide.v1"),
    ],
)
def test_a_server_of_another_version(speaks: bool, words: str) -> None:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    servicer = _OtherVersion()
    if speaks:
        coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server(servicer, server)
        shard_pb2_grpc.add_ShardServiceServicer_to_server(servicer, server)
    address = servicer.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        with pytest.raises(dslide.FailedPreconditionError, match=words):
            dslide.connect(address)
    finally:
        server.stop(None)


def test_certificates_that_are_none(tmp_path: Any) -> None:
    nothing = tmp_path / "ca.pem"
    with pytest.raises(dslide.InvalidArgumentError, match=f"tls.ca: cannot read {nothing}"):
        dslide.connect("127.0.0.1:7000", tls=dslide.Tls(ca=nothing))
    nothing.write_text("nothing")
    with pytest.raises(dslide.InvalidArgumentError, match="no PEM file"):
        dslide.connect("127.0.0.1:7000", tls=dslide.Tls(ca=nothing))
    with pytest.raises(dslide.InvalidArgumentError, match="belong together"):
        dslide.connect("127.0.0.1:7000", tls=dslide.Tls(cert=nothing))


def test_errors_travel_between_processes() -> None:
    error = dslide.ResourceExhaustedError(
        "full", reason="QUEUE_FULL", retry_after=0.5, applied=None, request_id="4f1c"
    )
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), "full")
    assert vars(copy) == vars(error)


def test_an_error_names_the_request(cluster: dslide.LocalCluster) -> None:
    with pytest.raises(dslide.NotFoundError) as first:
        cluster.drop_model("nope")
    with pytest.raises(dslide.NotFoundError) as second:
        cluster.drop_model("nope")
    for error in (first.value, second.value):
        assert re.fullmatch("[0-9a-f]{16}", error.request_id)
        assert str(error).endswith(f" (request {error.request_id})")
    assert first.value.request_id != second.value.request_id
    with (
        dslide.connect(cluster.address, request_id="job-7") as client,
        pytest.raises(dslide.NotFoundError) as own,
    ):
        client.drop_model("nope")
    assert own.value.request_id == "job-7"
    with pytest.raises(dslide.InvalidArgumentError, match="'two words' is not 1 to 64"):
        dslide.connect(cluster.address, request_id="two words")


def test_a_client_is_safe_from_many_threads(
    cluster: dslide.LocalCluster, model: dslide.Model
) -> None:
    before = model.gather("labels", [9])
    threads = [
        threading.Thread(target=model.scatter, args=("labels", [9], ONES), kwargs={"mode": "add"})
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(model.gather("labels", [9]) - before, 16 * ONES, rtol=1e-4)
