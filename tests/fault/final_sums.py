"""What the rows of a cluster say in the end of every update of the increment clients."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import grpc_client
import shard_client
from dslide.v1.model_pb2 import ModelSpec
from increment_cells import lane_of
from oracle import Event, Sums


def final_sums(addresses: Sequence[str], model: ModelSpec,
               history: list[Event]) -> tuple[Sums, list[tuple[Any, ...]]]:
    """({(client, shard, sequence): both cells}, [lanes whose count differs from their cells])."""
    table = model.tables[0]
    sums, miscounted = {}, []
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(grpc_client.Connection(address))
                       for address in addresses]
        for event in history:
            if event["event"] != "client":
                continue
            shard = event["shard"]
            lane = lane_of(table, event["lane"], shard, len(addresses))
            weights, _ = shard_client.gather_bytes(connections[shard], model.name, table.name,
                                                   sorted(lane.rows))
            found, count = lane.sums(weights)
            for sequence, cells in found.items():
                if any(cells):
                    sums[event["client"], shard, sequence] = cells
            added = sum(cells[0] for cells in found.values())
            if count != added:
                miscounted.append((event["client"], shard, count, added))
    return sums, miscounted
