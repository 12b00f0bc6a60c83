"""Rows of a head that hashing finds, and those that score best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dslide import arrays
from dslide._arguments import checked_floats, checked_ids
from dslide._connection import Connection
from dslide._models import find_table, hash_family
from dslide.errors import InternalError, InvalidArgumentError
from dslide.ragged import Ragged, slice_ragged
from dslide.v1 import model_pb2, shard_pb2

F32 = npt.NDArray[np.float32]

_MAX_BUDGET = 2**31


@dataclass(frozen=True)
class Selection:
    """Rows that hashing finds: sample i has ids[offsets[i]:offsets[i + 1]], ascending."""

    offsets: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint32]


@dataclass(frozen=True)
class TopK:
    """The best rows of each query, best first; fewer than k: -inf and id 2^32 - 1.

    logits : float32 [B, k]
    ids : uint32 [B, k]
    """

    logits: F32
    ids: npt.NDArray[np.uint32]


async def select(
    connection: Connection, model: str, table: str, hidden: npt.ArrayLike, max_active: int = 0
) -> Selection:
    """The rows of a head that hashing finds for hidden vectors, float32 [B, dim].

    At most `max_active` of each shard for each of them; 0: as many as in training.
    """
    spec = await find_table(connection, model, table)
    queries = checked_floats(hidden, (None, spec.dim), f"hidden vectors of table {table!r}")
    family = hash_family(connection, model, spec)
    if family is None:
        raise InvalidArgumentError(
            f"table {table!r} of model {model!r} is not hashed: its "
            "max_active is 0, every row is active"
        )
    prints = family.hash_queries(queries).astype("<u4").tobytes()
    request = shard_pb2.GatherRequest(
        model=model,
        table=table,
        topology_version=connection.map.topology_version,
        fingerprints=shard_pb2.FingerprintSelection(
            batch=len(queries), fingerprints=prints, max_active=max_active
        ),
    )
    parts = await connection.io.gather(
        [_select_part(connection, shard, request) for shard in range(len(connection.shards))]
    )
    samples = np.concatenate(
        [np.repeat(np.arange(len(queries)), np.diff(p.offsets)) for p in parts]
    )
    found = np.concatenate([p.ids for p in parts])
    counts = np.bincount(samples, minlength=len(queries))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Selection(offsets, found[np.lexsort((found, samples))])


async def _select_part(
    connection: Connection, shard: int, request: shard_pb2.GatherRequest
) -> Selection:
    peer = connection.shards[shard]
    first: list[shard_pb2.GatherResponse] = []

    def on_message(message: bytes) -> None:
        if not first:
            first.append(shard_pb2.GatherResponse.FromString(message))

    async def attempt(_left: float) -> None:
        first.clear()
        await peer.download("Gather", connection.gathers[shard], request, on_message)

    await peer.repeat(attempt, connection.settings.timeout)
    if not first:
        raise InternalError(f"{peer.name} answered no selection")
    return Selection(
        arrays.ids(first[0].sample_offsets).astype(np.int64), arrays.ids(first[0].sample_row_ids)
    )


async def top_k(
    connection: Connection,
    model: str,
    table: str,
    hidden: npt.ArrayLike,
    k: int = 5,
    *,
    hashed: bool = False,
    rows: Sequence[npt.ArrayLike] | None = None,
    offsets: Sequence[npt.ArrayLike] | None = None,
    budget: int = 0,
) -> TopK:
    """The k best rows of a head for hidden vectors, float32 [B, dim], over all shards.

    Exactly; with `hashed` among the candidates that hashing finds; or with `rows` among these.

    Parameters
    ----------
    rows : for each vector its candidates, integers [n], in any order and each once
    offsets : beside `rows`, what is added to their logits, float32 [n]; None: nothing
    budget : beside `hashed`, rows to score for each vector, over all shards: the more, the more of
        the exact answer is found; 0: as many as in training
    """
    if budget < 0 or budget > _MAX_BUDGET or (budget > 0 and not hashed):
        raise InvalidArgumentError(
            f"budget {budget}: must be in [0, {_MAX_BUDGET}], and 0 unless hashed is True"
        )
    spec = await find_table(connection, model, table)
    queries = checked_floats(hidden, (None, spec.dim), f"hidden vectors of table {table!r}")
    request = shard_pb2.TopKRequest(
        model=model,
        table=table,
        hidden=arrays.matrix(queries),
        k=k,
        mode=shard_pb2.TOP_K_MODE_EXACT,
    )
    if rows is not None:
        candidates = _candidates(spec, len(queries), rows, offsets)
        return await _top_k_of(connection, spec, request, candidates)
    if offsets is not None:
        raise InvalidArgumentError("offsets are given without rows: name the candidates, too")
    family = hash_family(connection, model, spec) if hashed else None
    if family is not None:
        request.mode = shard_pb2.TOP_K_MODE_HASHED
        request.budget = budget
        request.fingerprints = family.hash_queries(queries).astype("<u4").tobytes()
    answers = await connection.io.gather(
        [shard.call("TopK", request) for shard in connection.shards]
    )
    return _best_of(answers, len(queries), k)


async def _top_k_of(
    connection: Connection,
    spec: model_pb2.TableSpec,
    request: shard_pb2.TopKRequest,
    candidates: Ragged,
) -> TopK:
    owners, shards = connection.owners(spec.num_slots), connection.shards
    calls = []
    for shard, mine in zip(shards, slice_ragged(owners, len(shards), candidates), strict=True):
        part = shard_pb2.TopKRequest()
        part.CopyFrom(request)
        part.mode = shard_pb2.TOP_K_MODE_GIVEN
        part.packed_row_ids = arrays.pack_ids(mine.offsets, mine.ids)
        if mine.values is not None and mine.values.any():
            part.logit_offsets = mine.values.astype("<f4", copy=False).tobytes()
        calls.append(shard.call("TopK", part))
    return _best_of(await connection.io.gather(calls), candidates.samples, request.k)


def _best_of(answers: Sequence[Any], queries: int, k: int) -> TopK:
    """The best of the shards' answers, by falling logit, ties by smaller id."""
    shape = (queries, k)
    logits = np.hstack([arrays.floats(a.logits).reshape(shape) for a in answers])
    found = np.hstack([arrays.ids(a.row_ids).reshape(shape) for a in answers])
    order = np.lexsort((found, -logits), axis=1)[:, :k]
    return TopK(np.take_along_axis(logits, order, axis=1), np.take_along_axis(found, order, axis=1))


def _candidates(
    spec: model_pb2.TableSpec,
    queries: int,
    rows: Sequence[npt.ArrayLike],
    offsets: Sequence[npt.ArrayLike] | None,
) -> Ragged:
    """Checked, each query's in ascending order."""
    if len(rows) != queries or (offsets is not None and len(offsets) != queries):
        have = f"rows of {len(rows)}"
        if offsets is not None:
            have += f" and offsets of {len(offsets)}"
        raise InvalidArgumentError(f"{have} queries are given for {queries} hidden vectors")
    ids, values = [], []
    for query in range(queries):
        mine = checked_ids(rows[query], spec.rows, f"rows[{query}]")
        order = np.argsort(mine, kind="stable")
        ids.append(mine[order])
        twice = np.flatnonzero(np.diff(ids[-1]) == 0)
        if len(twice):
            raise InvalidArgumentError(
                f"rows[{query}] has row {ids[-1][twice[0]]} twice: name each once"
            )
        if offsets is not None:
            wide = checked_floats(offsets[query], (len(mine),), f"offsets[{query}]")
            values.append(wide[order])
    ends = np.concatenate([[0], np.cumsum([len(mine) for mine in ids])]).astype(np.int64)
    flat = np.concatenate(ids) if ids else np.zeros(0, np.int64)
    return Ragged(ends, flat.astype(np.uint32), np.concatenate(values) if values else None)
