"""Who owns a slot is what the coordinator says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import pytest

import dslide
from dslide.v1 import (
    coordinator_pb2,
    coordinator_pb2_grpc,
    model_pb2,
    shard_pb2,
    shard_pb2_grpc,
)


class FakeCoordinator(
    coordinator_pb2_grpc.CoordinatorServiceServicer, shard_pb2_grpc.ShardServiceServicer
):
    """A coordinator and its two shards in one server; slots have the owners in `owners`."""

    def __init__(self, owners: dict[int, list[int]]) -> None:
        self.owners = owners
        self.address = ""
        self.topology_version = 3
        self.asked: list[list[int]] = []
        self.specs: list[Any] = []

    def GetClusterMap(self, request: Any, context: Any) -> Any:
        self.asked.append(list(request.num_slots))
        known = sorted({table.num_slots for spec in self.specs for table in spec.tables})
        return coordinator_pb2.GetClusterMapResponse(
            topology_version=self.topology_version,
            shards=[
                coordinator_pb2.ShardInfo(shard_id=shard, address=self.address)
                for shard in range(2)
            ],
            slots=[
                model_pb2.SlotAssignment(
                    num_slots=slots,
                    owners=np.array(self.owners[slots], "<u2").tobytes(),
                    num_shards=2,
                )
                for slots in request.num_slots or known
            ],
        )

    def RegisterModel(self, request: Any, context: Any) -> Any:
        self.specs.append(request.spec)
        return coordinator_pb2.RegisterModelResponse(created=True)

    def ListModels(self, request: Any, context: Any) -> Any:
        return coordinator_pb2.ListModelsResponse(models=self.specs)

    def GetServerInfo(self, request: Any, context: Any) -> Any:
        return shard_pb2.GetServerInfoResponse(version=dslide.__version__)


@contextlib.contextmanager
def _served(fake: FakeCoordinator) -> Iterator[None]:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    coordinator_pb2_grpc.add_CoordinatorServiceServicer_to_server(fake, server)
    shard_pb2_grpc.add_ShardServiceServicer_to_server(fake, server)
    fake.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield
    finally:
        server.stop(None)


def _spec(name: str, *num_slots: int) -> dict[str, Any]:
    return {
        "name": name,
        "tables": [
            {"name": f"t{slots}", "role": "embedding", "rows": 10, "dim": 2, "num_slots": slots}
            for slots in num_slots
        ],
    }


def test_they_are_asked_for_once_for_each_number_of_slots() -> None:
    fake = FakeCoordinator({3: [1, 1, 0], 4: [0, 1, 1, 1]})
    with _served(fake):
        with dslide.connect(fake.address) as cluster:
            assert fake.asked == [[]]
            spec = cluster.create_model(_spec("a", 4, 3)).spec
            assert fake.asked == [[], [3, 4]]
            cluster.create_model(_spec("b", 4))
            cluster.model("a")
            assert fake.asked == [[], [3, 4]]
            places = cluster.connection.places(spec.tables[1], np.array([0, 1, 2, 5, 9]))
            assert [place.tolist() for place in places] == [[2, 3], [0, 1, 4]]
        with dslide.connect(fake.address) as cluster:  # the map has those of all models
            cluster.model("a")
            assert cluster.connection.owners(4).tolist() == [0, 1, 1, 1]
        assert fake.asked == [[], [3, 4], []]


def test_those_of_another_topology_are_refused() -> None:
    fake = FakeCoordinator({3: [1, 1, 0]})
    with _served(fake), dslide.connect(fake.address) as cluster:
        fake.topology_version = 4
        with pytest.raises(dslide.FailedPreconditionError, match="3, now 4.*connect again") as why:
            cluster.create_model(_spec("a", 3))
        assert why.value.reason == "STALE_TOPOLOGY"


@pytest.mark.parametrize("owners", [[0, 1], [0, 1, 2], [0, 1, 0, 1]])
def test_those_that_cannot_be_are_refused(owners: list[int]) -> None:
    fake = FakeCoordinator({3: owners})
    with (
        _served(fake),
        dslide.connect(fake.address) as cluster,
        pytest.raises(dslide.InternalError, match="owners of 3 slots"),
    ):
        cluster.create_model(_spec("a", 3))
