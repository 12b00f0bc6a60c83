"""Rows of tables, read and changed by id.

Row ids are global: requests are cut by owner, and answers put together in the order asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dslide import arrays, bulk
from dslide._arguments import checked_floats, checked_ids
from dslide._connection import Connection
from dslide._io import chunked
from dslide._models import find_table
from dslide.errors import InternalError, InvalidArgumentError
from dslide.v1 import shard_pb2

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
_IDS_PER_GATHER = 1 << 18
_MODES = {
    "gradient": shard_pb2.SCATTER_MODE_GRADIENT,
    "add": shard_pb2.SCATTER_MODE_ADD,
    "assign": shard_pb2.SCATTER_MODE_ASSIGN,
}


@dataclass(frozen=True)
class Rows:
    """Rows with their biases: values float32 [n, dim], biases float32 [n] or None."""

    values: F32
    biases: F32 | None


async def gather(
    connection: Connection,
    model: str,
    table: str,
    ids: npt.ArrayLike,
    *,
    out: F32 | None = None,
    averaged: bool = False,
) -> F32:
    """Rows of a table by id, in the order asked for; ids may repeat.

    Returns float32 [len(ids), dim]; `out` where that is given, whose memory need not be made
    ready again for each call. Rows of different shards are not of one instant. `averaged`: as
    predictions read them, where the table keeps averages (`optimizer.average_decay`).
    """
    return (await gather_rows(connection, model, table, ids, out=out, averaged=averaged)).values


async def gather_rows(
    connection: Connection,
    model: str,
    table: str,
    ids: npt.ArrayLike,
    *,
    out: F32 | None = None,
    averaged: bool = False,
) -> Rows:
    """The same with the rows' biases, where the table has them."""
    spec = await find_table(connection, model, table)
    wanted = checked_ids(ids, spec.rows, f"gather of table {table!r}")
    unique, inverse = _ascending(wanted)
    with_bias = spec.role != "embedding"
    shape = (len(wanted), spec.dim)
    if out is not None and (
        out.shape != shape or out.dtype != np.float32 or not out.flags.c_contiguous
    ):
        raise InvalidArgumentError(
            f"gather of table {table!r}: out is {out.dtype} {list(out.shape)}, must be "
            f"contiguous float32 {list(shape)}"
        )
    direct = out is not None and inverse is None
    values = out if direct else np.empty((len(unique), spec.dim), dtype=np.float32)
    assert values is not None
    rows = Rows(values, np.empty(len(unique), dtype=np.float32) if with_bias else None)
    parts = []
    for shard, places in enumerate(connection.places(spec, unique)):
        for some in chunked(len(places), _IDS_PER_GATHER):
            request = shard_pb2.GatherRequest(
                model=model,
                table=table,
                topology_version=connection.map.topology_version,
                rows=shard_pb2.RowSelection(row_ids=unique[places[some]].astype("<u4").tobytes()),
                averaged=averaged,
            )
            parts.append(_gather_part(connection, shard, request, places[some], rows))
    await connection.io.gather(parts)
    if inverse is None:
        return rows
    return Rows(
        values.take(inverse, axis=0, out=out),
        None if rows.biases is None else rows.biases[inverse],
    )


async def _gather_part(
    connection: Connection,
    shard: int,
    request: shard_pb2.GatherRequest,
    places: I64,
    rows: Rows,
) -> None:
    """Asks a shard for the rows of a request and puts them at their places in `rows`."""
    wanted = arrays.ids(request.rows.row_ids)
    peer = connection.shards[shard]
    # One run of rows is copied as a block.
    whole = len(places) == len(rows.values)
    done = 0

    def on_message(message: bytes) -> None:
        nonlocal done
        block = bulk.read_rows(message)
        end = done + len(block.ids)
        if not np.array_equal(block.ids, wanted[done:end]):
            raise InternalError(f"{peer.name} answered rows that were not asked for")
        into: Any = slice(done, end) if whole else places[done:end]
        rows.values[into] = block.values
        if rows.biases is not None:
            rows.biases[into] = block.biases
        done = end

    async def attempt(_left: float) -> None:
        nonlocal done
        done = 0
        await peer.download("Gather", connection.gathers[shard], request, on_message)
        if done != len(wanted):
            raise InternalError(f"{peer.name} answered {done} of {len(wanted)} rows")

    await peer.repeat(attempt, connection.settings.timeout)


async def scatter(
    connection: Connection,
    model: str,
    table: str,
    ids: npt.ArrayLike,
    values: npt.ArrayLike,
    *,
    biases: npt.ArrayLike | None = None,
    mode: str = "gradient",
    learning_rate: float | None = None,
) -> None:
    """Changes rows by id, each shard's part whole or not at all, and never twice.

    Parameters
    ----------
    ids : integers [n]; equal ones are added up ("assign" refuses them)
    values : float32 [n, dim]
    biases : float32 [n], for tables whose rows have one; None: 0, and unchanged by "add"
    mode : "gradient" runs the table's optimizer once, "add" adds, "assign" replaces
    learning_rate : of this update by gradients; None: the model's, by its schedule

    A lost answer is asked for again with the same number. Scatters of one client are applied
    in the order of these calls. When an error's `applied` is None, nobody knows whether a shard
    that does not answer has applied its part.
    """
    if mode not in _MODES:
        raise InvalidArgumentError(f"mode is {mode!r}, must be one of {', '.join(_MODES)}")
    spec = await find_table(connection, model, table)
    what = f"scatter to table {table!r}"
    rows = checked_ids(ids, spec.rows, what)
    block = checked_floats(values, (len(rows), spec.dim), f"{what}: values")
    has_bias = spec.role != "embedding"
    if biases is not None and not has_bias:
        raise InvalidArgumentError(f"{what}: its rows have no biases")
    extra = None
    if has_bias:
        extra = checked_floats(
            np.zeros(len(rows), np.float32) if biases is None else biases,
            (len(rows),),
            f"{what}: biases",
        )
    unique, inverse = _ascending(rows)
    if inverse is not None:
        if len(unique) < len(rows) and mode == "assign":
            raise InvalidArgumentError(
                f"{what}: row {unique[np.bincount(inverse).argmax()]} is assigned twice "
                "in one request: keep one of its values"
            )
        block = _added_up(inverse, block)
        extra = None if extra is None else _added_up(inverse, extra)
    head = shard_pb2.ScatterRequest(table=table, mode=_MODES[mode])
    head.envelope.model = model
    if learning_rate is not None:
        head.learning_rate = learning_rate
    async with connection.io.lock():
        await connection.io.gather(
            [
                connection.scatters[shard].apply(head, *_part(unique, block, extra, places))
                for shard, places in enumerate(connection.places(spec, unique))
                if len(places)
            ]
        )


def _part(ids: I64, values: F32, biases: F32 | None, places: I64) -> tuple[I64, F32, F32 | None]:
    """The rows at some places; without a copy when these are all."""
    if len(places) == len(ids):
        return ids, values, biases
    # take is twice as fast as an index.
    return ids[places], values.take(places, axis=0), None if biases is None else biases[places]


def _ascending(ids: I64) -> tuple[I64, I64 | None]:
    """The ids in strictly ascending order, and where each of the given ones is in it.

    None: they ascend already.
    """
    if (ids[1:] > ids[:-1]).all():
        return ids, None
    unique, inverse = np.unique(ids, return_inverse=True)
    return unique, inverse


def _added_up(inverse: I64, values: F32) -> F32:
    """The sums of the values, [n, ...], that belong to one id each."""
    order = np.argsort(inverse, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(inverse))[:-1]])
    sums: F32 = np.add.reduceat(values[order], starts, axis=0)
    return sums
