"""What a client does, written once for both of its faces (client.py, aio.py).

Row ids are global: requests are cut by owner, and answers put together in the order asked for.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dslide import arrays, bulk, hashing, slots
from dslide._io import Io, chunked
from dslide._scatter import ScatterQueue
from dslide._transport import Peer, Settings
from dslide._version import __version__
from dslide.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnimplementedError,
)
from dslide.spec import load_spec, resolved_head
from dslide.v1 import (
    coordinator_pb2,
    coordinator_pb2_grpc,
    model_pb2,
    shard_pb2,
    shard_pb2_grpc,
)

F32 = npt.NDArray[np.float32]
_IDS_PER_GATHER = 1 << 18
_LONG_TIMEOUT = 3600.0  # of calls that write or read all rows
_MODES = {
    "gradient": shard_pb2.SCATTER_MODE_GRADIENT,
    "add": shard_pb2.SCATTER_MODE_ADD,
    "assign": shard_pb2.SCATTER_MODE_ASSIGN,
}
_SHARD_REMEDY = (
    "see whether the shard runs (dslide status, its log), and start it again with its "
    "data directory"
)


@dataclass(frozen=True)
class Rows:
    """Rows with their biases: values float32 [n, dim], biases float32 [n] or None."""

    values: F32
    biases: F32 | None


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


def _checked_ids(ids: npt.ArrayLike, rows: int, what: str) -> npt.NDArray[np.int64]:
    array = np.asarray(ids)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidArgumentError(
            f"{what}: ids are {array.dtype} {list(array.shape)}, must be integers of one dimension"
        )
    array = array.astype(np.int64)
    if array.size and (array.min() < 0 or array.max() >= rows):
        worst = array[(array < 0) | (array >= rows)][0]
        raise InvalidArgumentError(f"{what}: id {worst} is outside [0, {rows})")
    return array


def checked_floats(x: npt.ArrayLike, shape: tuple[int | None, ...], what: str) -> F32:
    """A finite, contiguous float32 array of that shape; None is any size."""
    array = np.asarray(x)
    fits = array.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(array.shape, shape)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise InvalidArgumentError(f"{what} has shape {list(array.shape)}, must be [{wanted}]")
    if array.dtype.kind not in "fiu":
        raise InvalidArgumentError(f"{what} is {array.dtype}, must be numbers (float32)")
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, dtype=np.float32)
    # A sum finds NaN and infinity in one pass without memory of its own; it may overflow itself.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(array.sum())
    if suspicious and not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidArgumentError(f"{what} has {array[place]} at {list(place)}, must be finite")
    return array


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
) -> slots.Ragged:
    """Checked, each query's in ascending order."""
    if len(rows) != queries or (offsets is not None and len(offsets) != queries):
        have = f"rows of {len(rows)}"
        if offsets is not None:
            have += f" and offsets of {len(offsets)}"
        raise InvalidArgumentError(f"{have} queries are given for {queries} hidden vectors")
    ids, values = [], []
    for query in range(queries):
        mine = _checked_ids(rows[query], spec.rows, f"rows[{query}]")
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
    return slots.Ragged(ends, flat.astype(np.uint32), np.concatenate(values) if values else None)


class Operations:
    """One client of a cluster: everything but who runs it."""

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
        self._models: dict[str, model_pb2.ModelSpec] = {}
        self._families: dict[str, hashing.HashFamily] = {}
        self._gathers: list[Any] = []
        self._scatters: list[ScatterQueue] = []

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
            # Messages of rows are bytes here, which are read and written without further copies.
            self._gathers.append(
                peer.channel.unary_stream(
                    "/dslide.v1.ShardService/Gather",
                    request_serializer=shard_pb2.GatherRequest.SerializeToString,
                    response_deserializer=None,
                )
            )
            self._scatters.append(
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
        """Retires this client at the shards that have heard of it, and closes all connections."""

        await self.io.gather([queue.close() for queue in self._scatters])
        for peer in (*self.shards, self.coordinator):
            await peer.close()
        self.shards, self._scatters = [], []
        await self.io.finish()

    # --- The cluster ----------------------------------------------------------------------------

    async def cluster_map(self) -> coordinator_pb2.GetClusterMapResponse:
        """Where the shards are, as the coordinator says now."""
        response: coordinator_pb2.GetClusterMapResponse = await self.coordinator.call(
            "GetClusterMap", coordinator_pb2.GetClusterMapRequest()
        )
        return response

    async def status(self) -> coordinator_pb2.GetClusterStatusResponse:
        """Shards, models, jobs and checkpoints in one answer."""
        response: coordinator_pb2.GetClusterStatusResponse = await self.coordinator.call(
            "GetClusterStatus", coordinator_pb2.GetClusterStatusRequest()
        )
        return response

    async def metrics(self, shard: int) -> dict[str, float]:
        """The numbers of a shard's metrics page, by name with labels.

        Raises NotFoundError when the shard has no page that others reach.
        """
        info = self._shard_info(shard)
        if not info.admin_address:
            raise NotFoundError(f"shard {shard} has no metrics page: start it with --admin")
        url = f"http://{info.admin_address}/metrics"
        try:
            # Directly: a proxy knows nothing of the cluster's addresses.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(url, timeout=self.settings.timeout) as page:
                text = page.read().decode()
        except (OSError, urllib.error.URLError) as error:
            raise UnavailableError(f"shard {shard}, {url}: {error}") from None
        numbers = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                numbers[name] = float(value)
        return numbers

    def _shard_info(self, shard: int) -> coordinator_pb2.ShardInfo:
        if not 0 <= shard < len(self.map.shards):
            raise InvalidArgumentError(
                f"shard {shard} is outside [0, {len(self.map.shards)}), the shards of the cluster"
            )
        return self.map.shards[shard]

    # --- Models ---------------------------------------------------------------------------------

    async def create_model(self, spec: Any) -> model_pb2.ModelSpec:
        """Creates a model on all shards, unless an equal one is there."""
        model = load_spec(spec)
        await self.coordinator.call(
            "RegisterModel", coordinator_pb2.RegisterModelRequest(spec=model)
        )
        self._models[model.name] = model
        self._families.pop(model.name, None)
        return model

    async def list_models(self) -> list[model_pb2.ModelSpec]:
        """All models of the cluster."""
        response = await self.coordinator.call("ListModels", coordinator_pb2.ListModelsRequest())
        return list(response.models)

    async def model(self, name: str) -> model_pb2.ModelSpec:
        """The spec of a model. Raises NotFoundError naming those that there are."""
        if name not in self._models:
            known = {spec.name: spec for spec in await self.list_models()}
            if name not in known:
                there = f"it has: {', '.join(known)}" if known else "it has none: train one first"
                raise NotFoundError(
                    f"the cluster has no model {name!r}; {there}", reason="UNKNOWN_MODEL"
                )
            self._models[name] = known[name]
        return self._models[name]

    async def describe_model(
        self, name: str, *, digests: bool = False
    ) -> list[shard_pb2.DescribeModelResponse]:
        """What each shard holds of a model, by ordinal; digests cost a pass over all rows."""
        request = shard_pb2.DescribeModelRequest(model=name, with_digests=digests)
        timeout = _LONG_TIMEOUT if digests else self.settings.timeout
        return await self.io.gather(
            [shard.call("DescribeModel", request, timeout) for shard in self.shards]
        )

    async def drop_model(self, name: str) -> None:
        """Forgets a model and its rows, everywhere."""
        self._models.pop(name, None)
        await self.coordinator.call(
            "UnregisterModel", coordinator_pb2.UnregisterModelRequest(model=name)
        )

    async def _table(self, model: str, table: str) -> model_pb2.TableSpec:
        spec = await self.model(model)
        for known in spec.tables:
            if known.name == table:
                return known
        names = ", ".join(known.name for known in spec.tables)
        raise InvalidArgumentError(
            f"model {model!r} has no table {table!r}; it has: {names}", reason="UNKNOWN_TABLE"
        )

    def owners(self, num_slots: int) -> npt.NDArray[np.uint16]:
        """The shard of every slot of a table with so many."""
        return slots.deal(num_slots, [shard.capacity_weight for shard in self.map.shards])

    # --- Rows -----------------------------------------------------------------------------------

    async def gather(
        self,
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
        return (await self.gather_rows(model, table, ids, out=out, averaged=averaged)).values

    async def gather_rows(
        self,
        model: str,
        table: str,
        ids: npt.ArrayLike,
        *,
        out: F32 | None = None,
        averaged: bool = False,
    ) -> Rows:
        """The same with the rows' biases, where the table has them."""
        spec = await self._table(model, table)
        wanted = _checked_ids(ids, spec.rows, f"gather of table {table!r}")
        unique, inverse = _ascending(wanted)
        with_bias = spec.role != model_pb2.TABLE_ROLE_EMBEDDING
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
        biases = np.empty(len(unique), dtype=np.float32) if with_bias else None
        parts = []
        for shard, places in enumerate(self._places(spec, unique)):
            for some in chunked(len(places), _IDS_PER_GATHER):
                request = shard_pb2.GatherRequest(
                    model=model,
                    table=table,
                    topology_version=self.map.topology_version,
                    rows=shard_pb2.RowSelection(
                        row_ids=unique[places[some]].astype("<u4").tobytes()
                    ),
                    averaged=averaged,
                )
                parts.append(
                    self._gather_part(shard, request, unique, places[some], values, biases)
                )
        await self.io.gather(parts)
        if inverse is None:
            return Rows(values, biases)
        rows = values.take(inverse, axis=0, out=out)
        return Rows(rows, None if biases is None else biases[inverse])

    def _places(
        self, spec: model_pb2.TableSpec, ids: npt.NDArray[np.int64]
    ) -> list[npt.NDArray[np.int64]]:
        """Positions in `ids` of each shard's rows, by ordinal."""
        owner = self.owners(spec.num_slots)[ids % spec.num_slots]
        return [np.flatnonzero(owner == shard) for shard in range(len(self.shards))]

    async def _gather_part(
        self,
        shard: int,
        request: shard_pb2.GatherRequest,
        ids: npt.NDArray[np.int64],
        places: npt.NDArray[np.int64],
        values: F32,
        biases: F32 | None,
    ) -> None:
        """Asks for the rows ids[places] and puts them at their places."""
        wanted = ids[places].astype("<u4")
        # One run of rows is copied as a block.
        whole = len(places) == len(ids)
        done = 0

        def on_message(message: bytes) -> None:
            nonlocal done
            block = bulk.read_rows(message)
            end = done + len(block.ids)
            if not np.array_equal(block.ids, wanted[done:end]):
                raise InternalError(
                    f"{self.shards[shard].name} answered rows that were not asked for"
                )
            into: Any = slice(done, end) if whole else places[done:end]
            values[into] = block.values
            if biases is not None:
                biases[into] = block.biases
            done = end

        async def attempt(_left: float) -> None:
            nonlocal done
            done = 0
            peer = self.shards[shard]
            await peer.download("Gather", self._gathers[shard], request, on_message)
            if done != len(wanted):
                raise InternalError(f"{peer.name} answered {done} of {len(wanted)} rows")

        await self.shards[shard].repeat(attempt, self.settings.timeout)

    async def select(
        self, model: str, table: str, hidden: npt.ArrayLike, max_active: int = 0
    ) -> Selection:
        """The rows of a head that hashing finds for hidden vectors, float32 [B, dim].

        At most `max_active` of each shard for each of them; 0: as many as in training.
        """
        spec = await self._table(model, table)
        queries = checked_floats(hidden, (None, spec.dim), f"hidden vectors of table {table!r}")
        family = self._family(model, spec)
        if family is None:
            raise InvalidArgumentError(
                f"table {table!r} of model {model!r} is not hashed: its "
                "max_active is 0, every row is active"
            )
        prints = family.hash_queries(queries).astype("<u4").tobytes()
        request = shard_pb2.GatherRequest(
            model=model,
            table=table,
            topology_version=self.map.topology_version,
            fingerprints=shard_pb2.FingerprintSelection(
                batch=len(queries), fingerprints=prints, max_active=max_active
            ),
        )

        async def part(shard: int) -> Selection:
            first: list[shard_pb2.GatherResponse] = []

            def on_message(message: bytes) -> None:
                if not first:
                    first.append(shard_pb2.GatherResponse.FromString(message))

            async def attempt(_left: float) -> None:
                first.clear()
                await self.shards[shard].download(
                    "Gather", self._gathers[shard], request, on_message
                )

            await self.shards[shard].repeat(attempt, self.settings.timeout)
            if not first:
                raise InternalError(f"{self.shards[shard].name} answered no selection")
            return Selection(
                arrays.ids(first[0].sample_offsets).astype(np.int64),
                arrays.ids(first[0].sample_row_ids),
            )

        parts = await self.io.gather([part(shard) for shard in range(len(self.shards))])
        samples = np.concatenate(
            [np.repeat(np.arange(len(queries)), np.diff(p.offsets)) for p in parts]
        )
        found = np.concatenate([p.ids for p in parts])
        counts = np.bincount(samples, minlength=len(queries))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return Selection(offsets, found[np.lexsort((found, samples))])

    def _family(self, model: str, table: model_pb2.TableSpec) -> hashing.HashFamily | None:
        if table.role != model_pb2.TABLE_ROLE_HEAD or table.head.max_active == 0:
            return None
        if model not in self._families:
            self._families[model] = hashing.hash_family(resolved_head(table).hash, table.dim)
        return self._families[model]

    async def top_k(
        self,
        model: str,
        table: str,
        hidden: npt.ArrayLike,
        k: int = 5,
        *,
        hashed: bool = False,
        rows: Sequence[npt.ArrayLike] | None = None,
        offsets: Sequence[npt.ArrayLike] | None = None,
    ) -> TopK:
        """The k best rows of a head for hidden vectors, float32 [B, dim], over all shards.

        Exactly; with `hashed` among the candidates that hashing finds; or with `rows` among these.

        Parameters
        ----------
        rows : for each vector its candidates, integers [n], in any order and each once
        offsets : beside `rows`, what is added to their logits, float32 [n]; None: nothing
        """
        spec = await self._table(model, table)
        queries = checked_floats(hidden, (None, spec.dim), f"hidden vectors of table {table!r}")
        request = shard_pb2.TopKRequest(
            model=model,
            table=table,
            hidden=arrays.matrix(queries),
            k=k,
            mode=shard_pb2.TOP_K_MODE_EXACT,
        )
        if rows is not None:
            return await self._top_k_of(
                spec, request, _candidates(spec, len(queries), rows, offsets)
            )
        if offsets is not None:
            raise InvalidArgumentError("offsets are given without rows: name the candidates, too")
        family = self._family(model, spec) if hashed else None
        if family is not None:
            request.mode = shard_pb2.TOP_K_MODE_HASHED
            request.fingerprints = family.hash_queries(queries).astype("<u4").tobytes()
        answers = await self.io.gather([shard.call("TopK", request) for shard in self.shards])
        return _best_of(answers, len(queries), k)

    async def _top_k_of(
        self, spec: model_pb2.TableSpec, request: shard_pb2.TopKRequest, candidates: slots.Ragged
    ) -> TopK:
        owners = self.owners(spec.num_slots)
        calls = []
        for shard, mine in zip(
            self.shards, slots.slice_ragged(owners, len(self.shards), candidates), strict=True
        ):
            part = shard_pb2.TopKRequest()
            part.CopyFrom(request)
            part.mode = shard_pb2.TOP_K_MODE_GIVEN
            part.packed_row_ids = arrays.pack_ids(mine.offsets, mine.ids)
            if mine.values is not None and mine.values.any():
                part.logit_offsets = mine.values.astype("<f4", copy=False).tobytes()
            calls.append(shard.call("TopK", part))
        return _best_of(await self.io.gather(calls), candidates.samples, request.k)

    # --- Changes of rows ------------------------------------------------------------------------

    async def scatter(
        self,
        model: str,
        table: str,
        ids: npt.ArrayLike,
        values: npt.ArrayLike,
        *,
        biases: npt.ArrayLike | None = None,
        mode: str = "gradient",
    ) -> None:
        """Changes rows by id, each shard's part whole or not at all, and never twice.

        Parameters
        ----------
        ids : integers [n]; equal ones are added up ("assign" refuses them)
        values : float32 [n, dim]
        biases : float32 [n], for tables whose rows have one; None: 0, and unchanged by "add"
        mode : "gradient" runs the table's optimizer once, "add" adds, "assign" replaces

        A lost answer is asked for again with the same number. Scatters of one client are applied
        in the order of these calls. When an error's `applied` is None, nobody knows whether a shard
        that does not answer has applied its part.
        """
        if mode not in _MODES:
            raise InvalidArgumentError(f"mode is {mode!r}, must be one of {', '.join(_MODES)}")
        spec = await self._table(model, table)
        what = f"scatter to table {table!r}"
        rows = _checked_ids(ids, spec.rows, what)
        block = checked_floats(values, (len(rows), spec.dim), f"{what}: values")
        has_bias = spec.role != model_pb2.TABLE_ROLE_EMBEDDING
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
        if len(unique) < len(rows) and mode == "assign":
            counts = np.bincount(inverse) if inverse is not None else np.ones(0)
            raise InvalidArgumentError(
                f"{what}: row {unique[counts.argmax()]} is assigned twice "
                "in one request: keep one of its values"
            )
        if inverse is not None:
            order = np.argsort(inverse, kind="stable")
            starts = np.concatenate([[0], np.cumsum(np.bincount(inverse))[:-1]])
            block = np.add.reduceat(block[order], starts, axis=0)
            extra = None if extra is None else np.add.reduceat(extra[order], starts)
        head = shard_pb2.ScatterRequest(table=table, mode=_MODES[mode])
        head.envelope.model = model
        async with self.io.lock():
            await self.io.gather(
                [
                    self._scatters[shard].apply(head, *_part(unique, block, extra, places))
                    for shard, places in enumerate(self._places(spec, unique))
                    if len(places)
                ]
            )

    # --- Checkpoints ----------------------------------------------------------------------------

    async def save_checkpoint(
        self, model: str, checkpoint: str
    ) -> coordinator_pb2.CreateCheckpointResponse:
        """Makes every shard write a model's rows under that name; needs data directories."""
        response: coordinator_pb2.CreateCheckpointResponse = await self.coordinator.call(
            "CreateCheckpoint",
            coordinator_pb2.CreateCheckpointRequest(model=model, checkpoint=checkpoint),
            _LONG_TIMEOUT,
        )
        return response

    async def restore_checkpoint(self, model: str, checkpoint: str) -> int:
        """Makes every shard take a model's rows from it; returns how many there are."""
        response = await self.coordinator.call(
            "RestoreCheckpoint",
            coordinator_pb2.RestoreCheckpointRequest(model=model, checkpoint=checkpoint),
            _LONG_TIMEOUT,
        )
        return int(response.rows)

    async def save_cluster_checkpoint(self) -> coordinator_pb2.ClusterCheckpoint:
        """Takes a checkpoint of the whole cluster at one cut, while trainers go on."""
        response = await self.coordinator.call(
            "CreateClusterCheckpoint",
            coordinator_pb2.CreateClusterCheckpointRequest(),
            _LONG_TIMEOUT,
        )
        checkpoint: coordinator_pb2.ClusterCheckpoint = response.checkpoint
        return checkpoint

    async def list_cluster_checkpoints(self) -> list[coordinator_pb2.ClusterCheckpoint]:
        """The cluster's checkpoints, as the coordinator knows them."""
        response = await self.coordinator.call(
            "ListClusterCheckpoints", coordinator_pb2.ListClusterCheckpointsRequest()
        )
        return list(response.checkpoints)

    async def restore_cluster_checkpoint(self, epoch: int = 0) -> int:
        """Takes the whole cluster back to a checkpoint, 0: the newest; returns which it was."""
        response = await self.coordinator.call(
            "RestoreClusterCheckpoint",
            coordinator_pb2.RestoreClusterCheckpointRequest(epoch=epoch),
            _LONG_TIMEOUT,
        )
        return int(response.epoch)

    # --- Jobs -----------------------------------------------------------------------------------

    async def register_job(self, spec: coordinator_pb2.JobSpec, client_id: bytes = b"") -> bool:
        """Opens a training job, or joins the one of that name; whether it was opened."""
        response = await self.coordinator.call(
            "RegisterJob",
            coordinator_pb2.RegisterJobRequest(spec=spec, client_id=client_id or self.client_id),
        )
        return bool(response.created)

    async def acquire_work(
        self,
        job: str,
        *,
        client_id: bytes = b"",
        want_work: bool = True,
        finished: Sequence[coordinator_pb2.WorkReport] = (),
        held: Iterable[int] = (),
    ) -> coordinator_pb2.AcquireWorkResponse:
        """Reports finished leases, renews those held, and asks for the next. One attempt."""
        response: coordinator_pb2.AcquireWorkResponse = await self.coordinator.once(
            "AcquireWork",
            coordinator_pb2.AcquireWorkRequest(
                job=job,
                client_id=client_id or self.client_id,
                finished=finished,
                held=held,
                want_work=want_work,
            ),
            min(self.settings.timeout, 10.0),
        )
        return response

    async def leave_job(self, job: str, client_id: bytes = b"") -> None:
        """Returns this client's leases. One attempt."""
        await self.coordinator.once(
            "LeaveJob",
            coordinator_pb2.LeaveJobRequest(job=job, client_id=client_id or self.client_id),
            min(self.settings.timeout, 5.0),
        )

    async def job_status(self, job: str) -> coordinator_pb2.JobStatus:
        """How far a job is. Raises NotFoundError naming those that there are."""
        jobs = {status.job: status for status in (await self.status()).jobs}
        if job not in jobs:
            there = f"it has: {', '.join(jobs)}" if jobs else "it has none"
            raise NotFoundError(f"the cluster has no job {job!r}; {there}", reason="UNKNOWN_JOB")
        return jobs[job]


def _part(
    ids: npt.NDArray[np.int64], values: F32, biases: F32 | None, places: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], F32, F32 | None]:
    """The rows at some places; without a copy when these are all."""
    if len(places) == len(ids):
        return ids, values, biases
    # take is twice as fast as an index.
    return ids[places], values.take(places, axis=0), None if biases is None else biases[places]


def _ascending(
    ids: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """The ids in strictly ascending order, and where each of the given ones is in it.

    None: they ascend already.
    """
    if (ids[1:] > ids[:-1]).all():
        return ids, None
    unique, inverse = np.unique(ids, return_inverse=True)
    return unique, inverse
