"""The client for asyncio: what `dslide.Client` does, to be awaited.

async with dslide.aio.connect("127.0.0.1:7000") as cluster:
    model = await cluster.model("my-model")
    rows = await model.gather("labels", [17, 4])
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from dslide import (
    _assets,
    _checkpoints,
    _jobs,
    _models,
    _operations,
    _predictions,
    _rows,
    _status,
    _texts,
)
from dslide._connection import Connection
from dslide._io import AsyncIo
from dslide._transport import Settings, Tls
from dslide.spec import ModelSpec

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    operation: Callable[Concatenate[Connection, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(operation)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await operation(self.connection, *args, **kwargs)

    return method


def _bound(
    operation: Callable[Concatenate[Connection, str, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AsyncModel, P], Coroutine[Any, Any, T]]:
    @functools.wraps(operation)
    async def method(self: AsyncModel, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await operation(self.connection, self.spec.name, *args, **kwargs)

    return method


class AsyncModel:
    """A model of a cluster, as `dslide.Model`. Made by `AsyncClient.model`."""

    def __init__(self, connection: Connection, spec: ModelSpec) -> None:
        self.connection = connection
        self.spec = spec

    gather = _bound(_rows.gather)
    gather_rows = _bound(_rows.gather_rows)
    select = _bound(_predictions.select)
    top_k = _bound(_predictions.top_k)
    scatter = _bound(_rows.scatter)
    describe = _bound(_models.describe_model)
    save_checkpoint = _bound(_checkpoints.save_checkpoint)
    restore_checkpoint = _bound(_checkpoints.restore_checkpoint)


class AsyncClient:
    """A cluster, for one event loop. Made by `dslide.aio.connect`."""

    def __init__(self, address: str, settings: Settings) -> None:
        self._address = address
        self._settings = settings
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("not connected: use `async with dslide.aio.connect(…) as cluster`")
        return self._connection

    async def __aenter__(self) -> AsyncClient:
        self._connection = Connection(AsyncIo(), self._address, self._settings)
        try:
            await self._connection.open()
        except BaseException:
            await self._connection.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def num_shards(self) -> int:
        return len(self.connection.shards)

    async def model(self, name: str) -> AsyncModel:
        """A model of the cluster. Raises NotFoundError naming those that there are."""
        return AsyncModel(self.connection, await _models.model(self.connection, name))

    async def create_model(self, spec: Any) -> AsyncModel:
        """As `dslide.Client.create_model`."""
        return AsyncModel(self.connection, await _models.create_model(self.connection, spec))

    close = _awaited(Connection.close)
    cluster_map = _awaited(Connection.cluster_map)
    status = _awaited(_status.status)
    metrics = _awaited(_status.metrics)
    list_models = _awaited(_models.list_models)
    drop_model = _awaited(_models.drop_model)
    grow_model = _awaited(_models.grow_model)
    retire_labels = _awaited(_models.retire_labels)
    label_names = _awaited(_texts.label_names)
    model_assets = _awaited(_assets.model_assets)
    put_model_assets = _awaited(_assets.put_model_assets)
    save_cluster_checkpoint = _awaited(_checkpoints.save_cluster_checkpoint)
    list_cluster_checkpoints = _awaited(_checkpoints.list_cluster_checkpoints)
    verify_cluster_checkpoint = _awaited(_checkpoints.verify_cluster_checkpoint)
    prune_cluster_checkpoints = _awaited(_checkpoints.prune_cluster_checkpoints)
    restore_cluster_checkpoint = _awaited(_checkpoints.restore_cluster_checkpoint)
    register_job = _awaited(_jobs.register_job)
    acquire_work = _awaited(_jobs.acquire_work)
    leave_job = _awaited(_jobs.leave_job)
    cancel_job = _awaited(_jobs.cancel_job)
    delete_job = _awaited(_jobs.delete_job)
    list_jobs = _awaited(_jobs.list_jobs)
    job_status = _awaited(_jobs.job_status)
    list_operations = _awaited(_operations.list_operations)
    cancel_operation = _awaited(_operations.cancel_operation)


def connect(
    address: str = "127.0.0.1:7000",
    *,
    tls: Tls | None = None,
    timeout: float = 30.0,
    patience: float = 4.0,
    job: str = "default",
    insecure: bool = False,
    request_id: str = "",
) -> AsyncClient:
    """As `dslide.connect`; connects when the `async with` begins."""
    return AsyncClient(
        address,
        Settings(
            tls=tls,
            insecure=insecure,
            timeout=timeout,
            patience=patience,
            job=job,
            request_id=request_id,
        ),
    )
