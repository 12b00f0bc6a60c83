"""Rows of a table replaced by others, without an update of the table.

docs/understand/wire.md, "Rows as they are stored", says what a record is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dslide._steps import StepLane
from dslide.v1 import model_pb2, shard_pb2

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
_ALIGNMENT = 64  # bytes of the parts of a record
_BYTES_AT_ONCE = 3 << 20  # of a message, of which 4 MiB may be
# Of each optimizer: vectors of state, and floats of a row's own.
_STATE = {"sgd": (0, 0), "adagrad": (1, 0), "row_wise_adagrad": (0, 1), "adam": (2, 0)}


def stored_records(
    table: model_pb2.TableSpec, weights: F32, biases: F32 | None, last_step: int
) -> npt.NDArray[np.uint8]:
    """Records, [n, bytes of one], of rows without optimizer state, in a table of f32.

    weights float32 [n, dim], biases float32 [n]
    """
    vectors, own = _STATE[table.optimizer.kind]
    vectors += int(table.optimizer.average_decay > 0)
    part = _padded(4 * table.dim)
    tail = (1 + vectors) * part
    place = tail + 4 * (1 + vectors + own)  # of the last step
    records = np.zeros((len(weights), _padded(place + 4)), np.uint8)
    records[:, : 4 * table.dim] = np.ascontiguousarray(weights, "<f4").view(np.uint8)
    if biases is not None:
        records[:, tail : tail + 4] = np.ascontiguousarray(biases, "<f4")[:, None].view(np.uint8)
    records[:, place : place + 4] = np.frombuffer(np.uint32(last_step).tobytes(), np.uint8)
    return records


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def load_rows(
    lane: StepLane,
    table: model_pb2.TableSpec,
    ids: I64,
    weights: F32,
    biases: F32 | None,
    applied_steps: int,
) -> None:
    """Replaces rows of a table of f32, whose optimizer state is 0 then.

    ids : strictly ascending, [n]
    applied_steps : updates that the table has had; no step of this model may be under way

    Hash tables are built from all rows at the end.
    """
    step = lane.begin()
    try:
        owner = lane.owners(table)[ids % table.num_slots]
        places = [np.flatnonzero(owner == shard) for shard in range(lane.shards)]
        size = stored_records(table, weights[:0], None, 0).shape[1]
        at_once = max(1, _BYTES_AT_ONCE // (size + 8))
        rounds = max(1, -(-max(len(mine) for mine in places) // at_once))
        for i in range(rounds):
            operations: list[dict[str, Any]] = []
            for mine in places:
                some = mine[i * at_once : (i + 1) * at_once]
                records = stored_records(
                    table, weights[some], None if biases is None else biases[some], applied_steps
                )
                rows = shard_pb2.StoredRows(
                    row_ids=ids[some].astype("<u4").tobytes(),
                    sizes=np.full(len(some), size, "<u4").tobytes(),
                    records=records.tobytes(),
                )
                request = shard_pb2.LoadRows(
                    table=table.name,
                    rows=rows,
                    applied_steps=applied_steps,
                    finish=i + 1 == rounds,
                )
                operations.append({"load_rows": request})
            lane.exchange(step, operations)
    finally:
        lane.end(step)
