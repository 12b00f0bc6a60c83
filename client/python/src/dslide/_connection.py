"""The connections of one client to a cluster's servers, and what it knows of the cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from dslide import hashing
from dslide._io import Io
from dslide._scatter import ScatterQueue
from dslide._transport import Peer, Settings
from dslide._version import __version__
from dslide.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    UnavailableError,
    UnimplementedError,
)
from dslide.v1 import (
    coordinator_pb2,
    coordinator_pb2_grpc,
    model_pb2,
    shard_pb2,
    shard_pb2_grpc,
)

_SHARD_REMEDY = (
    "see whether the shard runs (dslide status, its log), and start it again with its "
    "data directory"
)


class Connection:
    """What every operation needs. The operations themselves are functions of it, by noun.

    map : as it was when the connection was opened
    specs, families : of models that were opened; see _models.py
    """

    def __init__(self, io: Io, address: str, settings: Settings) -> None:
        self.io = io
        self.settings = settings
        self.coordinator = Peer(
            io,
            settings,
            address,
            "coordinator",
            f"start the coordinator (dslide up, or dslide-coordinator --listen {address}), or name "
            "the address of one that runs",
            coordinator_pb2_grpc.CoordinatorServiceStub,
        )
        self.shards: list[Peer] = []
        self.map = coordinator_pb2.GetClusterMapResponse()
        self.client_id = os.urandom(16)
        self.gathers: list[Any] = []  # by shard; messages of rows are bytes here
        self.scatters: list[ScatterQueue] = []  # by shard
        self.specs: dict[str, model_pb2.ModelSpec] = {}
        self.families: dict[str, hashing.HashFamily] = {}
        self._owners: dict[int, npt.NDArray[np.uint16]] = {}  # by number of slots, of `map`

    async def open(self) -> None:
        try:
            self.map = await self.cluster_map()
        except UnimplementedError as error:
            raise FailedPreconditionError(
                f"{self.coordinator.name} does not speak dslide.v1: it is of another version than "
                f"this client ({__version__}), or no coordinator at all ({error})"
            ) from None
        if [shard.shard_id for shard in self.map.shards] != list(range(len(self.map.shards))):
            raise InternalError(f"{self.coordinator.name} answered a map that lacks shards")
        self._keep_owners(self.map)
        for shard in self.map.shards:
            peer = Peer(
                self.io,
                self.settings,
                shard.address,
                f"shard {shard.shard_id}",
                _SHARD_REMEDY,
                shard_pb2_grpc.ShardServiceStub,
            )
            self.shards.append(peer)
            # Bytes are read without the copies that generated code makes.
            self.gathers.append(
                peer.channel.unary_stream(
                    "/dslide.v1.ShardService/Gather",
                    request_serializer=shard_pb2.GatherRequest.SerializeToString,
                    response_deserializer=None,
                )
            )
            self.scatters.append(
                ScatterQueue(
                    self.io, peer, self.settings, self.client_id, self.map.topology_version
                )
            )
        await self.io.gather([self._check_version(shard) for shard in self.shards])

    async def _check_version(self, shard: Peer) -> None:
        try:
            info = await shard.once(
                "GetServerInfo",
                shard_pb2.GetServerInfoRequest(),
                min(self.settings.timeout, self.settings.patience),
            )
        except (UnavailableError, DeadlineExceededError):
            return  # a shard that is away is told of by the calls that need it
        if info.version.split(".")[:2] != __version__.split(".")[:2]:
            raise FailedPreconditionError(
                f"{shard.name} is of version {info.version}, this client of {__version__}: install "
                "the client of the cluster's version "
                f"(pip install 'dslide=={'.'.join(info.version.split('.')[:2])}.*')"
            )

    async def close(self) -> None:
        """Closes this client at the shards that have heard of it, and all connections."""
        await self.io.gather([queue.close() for queue in self.scatters])
        for peer in (*self.shards, self.coordinator):
            await peer.close()
        self.shards, self.scatters = [], []
        await self.io.finish()

    # --- Owners of slots ------------------------------------------------------------------------

    async def cluster_map(self) -> coordinator_pb2.GetClusterMapResponse:
        """Where the shards are and who owns which slots, as the coordinator says now."""
        return await self._ask_for_map(())

    async def _ask_for_map(self, num_slots: Iterable[int]) -> coordinator_pb2.GetClusterMapResponse:
        response: coordinator_pb2.GetClusterMapResponse = await self.coordinator.call(
            "GetClusterMap", coordinator_pb2.GetClusterMapRequest(num_slots=num_slots)
        )
        return response

    def _keep_owners(self, answer: coordinator_pb2.GetClusterMapResponse) -> None:
        for slots in answer.slots:
            whole = len(slots.owners) == 2 * slots.num_slots > 0
            owners = np.frombuffer(slots.owners, dtype="<u2") if whole else np.empty(0, np.uint16)
            if not whole or owners.max() >= len(answer.shards):
                raise InternalError(
                    f"{self.coordinator.name} answered {len(slots.owners)} bytes of owners of "
                    f"{slots.num_slots} slots that are not those of {len(answer.shards)} shards"
                )
            self._owners[slots.num_slots] = owners

    async def learn_owners(self, spec: model_pb2.ModelSpec) -> None:
        """Asks who owns the slots of a model's tables, as far as that is not known.

        Raises FailedPreconditionError when slots were dealt anew since `open`.
        """
        unknown = {table.num_slots for table in spec.tables} - self._owners.keys()
        if not unknown:
            return
        now = await self._ask_for_map(sorted(unknown))
        if now.topology_version != self.map.topology_version:
            raise FailedPreconditionError(
                f"the cluster's shards changed since this client was made (topology "
                f"{self.map.topology_version}, now {now.topology_version}): connect again",
                reason="STALE_TOPOLOGY",
            )
        self._keep_owners(now)
        unknown -= self._owners.keys()
        if unknown:
            raise InternalError(
                f"{self.coordinator.name} did not answer who owns {sorted(unknown)} slots"
            )

    def owners(self, num_slots: int) -> npt.NDArray[np.uint16]:
        """The shard of every slot of an opened model's table with so many; read-only."""
        return self._owners[num_slots]

    def places(
        self, table: model_pb2.TableSpec, ids: npt.NDArray[np.int64]
    ) -> list[npt.NDArray[np.int64]]:
        """Positions in `ids` of each shard's rows, by ordinal."""
        owner = self.owners(table.num_slots)[ids % table.num_slots]
        return [np.flatnonzero(owner == shard) for shard in range(len(self.shards))]
