"""Adds 1 to four rows for each line of stdin, and says of every update what became of it.

python increments.py COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]

Update n, from 0, is of the rows FIRST_ROW + 4 n and the three after it. stdout: a line of JSON for
each update, {"update", "outcome", "reason"}.

A line "step 2" asks for two operations of a step stream at once instead, updates n and n + 1: each
the sum of row n of another model, which the answer has as "value".
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import Any

import numpy as np

import dslide
from dslide._stream import ShardStream
from dslide.v1 import shard_pb2

CELLS = "cells"  # the model, and its only table
ROWS_OF_UPDATE = 4
STEPS = "steps"  # the model of the operations


def outcome_of(error: dslide.DslideError) -> str:
    return "refused" if error.applied is False else "unknown"


class Operations:
    """Operations of a step stream to the first shard, each a step of its own."""

    def __init__(self, cluster: dslide.Client) -> None:
        self._cluster = cluster
        self._stream: ShardStream | None = None

    def run(self, first: int, count: int) -> None:
        """Sends all of them before it takes the answers."""
        stream = self._stream = self._stream or self._open()
        for row in range(first, first + count):
            request = shard_pb2.EmbedForward(
                table=CELLS,
                batch=1,
                sample_offsets=np.array([0, 1], "<u4").tobytes(),
                row_ids=np.array([row], "<u4").tobytes(),
            )
            stream.send(row + 1, row + 1, embed_forward=request)
        for row in range(first, first + count):
            said: dict[str, Any] = {"update": row, "outcome": "applied", "reason": "", "value": 0}
            try:
                answer = stream.receive().embed_forward.partial
                said["value"] = float(np.frombuffer(answer.data, "<f4")[0])
            except dslide.DslideError as error:
                said |= {"outcome": outcome_of(error), "reason": error.reason}
            print(json.dumps(said), flush=True)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _open(self) -> ShardStream:
        sgd = {"dim": 1, "init": {"kind": "zero"}, "optimizer": {"kind": "sgd"}}
        embedding = {"name": CELLS, "role": "embedding", "rows": 200_000}
        head = {"name": "head", "role": "head", "rows": 8, "head": {"max_active": 0}}
        self._cluster.create_model({"name": STEPS, "tables": [embedding | sgd, head | sgd]})
        connection = self._cluster.connection
        settings = dataclasses.replace(connection.settings, job=STEPS)
        topology = connection.map.topology_version
        return ShardStream(connection.shards[0], settings, os.urandom(16), STEPS, topology)


def run(coordinator: str, first_row: int, timeout: float, tls: dslide.Tls | None) -> None:
    with dslide.connect(coordinator, tls=tls, timeout=timeout, patience=timeout) as cluster:
        table = {"name": CELLS, "rows": 200_000, "dim": 1, "init": {"kind": "zero"}}
        spec = {"name": CELLS, "tables": [table | {"optimizer": {"kind": "sgd"}}]}
        model = cluster.create_model(spec)
        ones = np.ones((ROWS_OF_UPDATE, 1), np.float32)
        operations = Operations(cluster)
        update = 0
        for line in sys.stdin:
            if line.startswith("step "):
                count = int(line.split()[1])
                operations.run(update, count)
                update += count
                continue
            rows = first_row + ROWS_OF_UPDATE * update + np.arange(ROWS_OF_UPDATE)
            said = {"update": update, "outcome": "applied", "reason": ""}
            try:
                model.scatter(CELLS, rows, ones, mode="add")
            except dslide.DslideError as error:
                said |= {"outcome": outcome_of(error), "reason": error.reason}
            print(json.dumps(said), flush=True)
            update += 1
        operations.close()


def main() -> None:
    parts = sys.argv[1:]
    if len(parts) not in (3, 6):
        sys.exit("usage: increments.py COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]")
    tls = dslide.Tls(*parts[3:]) if len(parts) == 6 else None
    try:
        run(parts[0], int(parts[1]), float(parts[2]), tls)
    except dslide.DslideError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
