"""Where each update of the increment clients writes: cells of its own, so that sums tell its fate.

A table's rows on a shard are dealt out in lanes. A lane belongs to one client id on one shard; its
first row counts (cell 0 gets +1 from every update), the other rows hold two cells for each
sequence, in two different rows: an update that is applied by halves shows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import struct
from collections.abc import Sequence
from typing import Any

import shard_client
from dslide.v1.model_pb2 import ModelSpec, TableSpec
from grpc_client import Connection
from oracle import Event, Sums

DIM = 64
ROWS_PER_HALF = 16
SEQUENCES_PER_LANE = ROWS_PER_HALF * DIM
ROWS_PER_LANE = 1 + 2 * ROWS_PER_HALF
NUM_SLOTS = 64
MODEL_NAME = "increments"
TABLE_NAME = "cells"


class NoLaneLeft(Exception):
    """The table is full: the run needs a larger one."""


def model_for(lanes: int, num_shards: int) -> ModelSpec:
    """A model whose table has room for so many lanes on each shard."""
    # A shard holds whole slots: round the rows up to a multiple of the slots.
    rows = lanes * ROWS_PER_LANE * num_shards
    rows = (rows + NUM_SLOTS * num_shards) // NUM_SLOTS * NUM_SLOTS
    table = shard_client.table_spec(TABLE_NAME, rows, DIM, NUM_SLOTS)
    return shard_client.model_spec(MODEL_NAME, table)


@dataclasses.dataclass(frozen=True)
class Lane:
    """The rows of one lane, and what an update of it adds."""

    rows: tuple[int, ...]

    def cells(self, sequence: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The two (row, column) that belong to a sequence from 1 on."""
        row, column = divmod(sequence - 1, DIM)
        return (self.rows[1 + row], column), (self.rows[1 + ROWS_PER_HALF + row], column)

    def update(self, sequence: int) -> dict[int, list[float]]:
        """{row: [DIM floats]} to add for a sequence."""
        added = {self.rows[0]: [0.0] * DIM}
        added[self.rows[0]][0] = 1.0
        for row, column in self.cells(sequence):
            added[row] = [0.0] * DIM
            added[row][column] = 1.0
        return added

    def sums(self, weights: bytes) -> tuple[dict[int, list[float]], float]:
        """{sequence: [both cells]} and the count, of the gathered f32 bytes of its rows."""
        values = struct.unpack(f"<{len(weights) // 4}f", weights)
        at = {row: place * DIM for place, row in enumerate(self.rows)}
        found: dict[int, list[float]] = {}
        for sequence in range(1, SEQUENCES_PER_LANE + 1):
            found[sequence] = [values[at[row] + column] for row, column in self.cells(sequence)]
        return found, values[at[self.rows[0]]]


class LaneBook:
    """Deals the lanes of each shard out to processes: nobody gets a number that another has.

    The files PATH.0, PATH.1, ... remember, one for each shard, with a byte for each lane.
    """

    def __init__(self, path: pathlib.Path, lanes: int) -> None:
        self._path = path
        self._lanes = lanes

    def take(self, shard: int) -> int:
        with open(f"{self._path}.{shard}", "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0, os.SEEK_END)
            number = file.tell()
            if number >= self._lanes:
                raise NoLaneLeft(f"all {self._lanes} lanes of shard {shard} are taken")
            file.write(b".")
            return number


def lane_of(table: TableSpec, number: int, shard: int, num_shards: int) -> Lane:
    """Lane `number` of the rows that a shard holds."""
    slots = [slot for slot in range(table.num_slots) if slot % num_shards == shard]
    rows = []
    for place in range(number * ROWS_PER_LANE, (number + 1) * ROWS_PER_LANE):
        index, slot = divmod(place, len(slots))
        rows.append(index * table.num_slots + slots[slot])
    if rows[-1] >= table.rows:
        raise NoLaneLeft(f"lane {number} is beyond the table's {table.rows} rows")
    return Lane(tuple(rows))


def final_sums(addresses: Sequence[str], model: ModelSpec,
               history: list[Event]) -> tuple[Sums, list[tuple[Any, ...]]]:
    """What the rows say in the end: ({(client, shard, sequence): both cells}, [lanes whose count
    differs from their cells])."""
    table = model.tables[0]
    sums, miscounted = {}, []
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(Connection(address)) for address in addresses]
        for event in history:
            if event["event"] != "client":
                continue
            shard = event["shard"]
            lane = lane_of(table, event["lane"], shard, len(addresses))
            weights, _ = shard_client.gather_bytes(connections[shard], model.name, table.name,
                                                   sorted(lane.rows))
            found, count = lane.sums(weights)
            sums.update({(event["client"], shard, sequence): cells
                         for sequence, cells in found.items() if any(cells)})
            added = sum(cells[0] for cells in found.values())
            if count != added:
                miscounted.append((event["client"], shard, count, added))
    return sums, miscounted
