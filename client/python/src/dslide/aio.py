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

from dslide._io import AsyncIo
from dslide._operations import Operations
from dslide._transport import Settings, Tls
from dslide.spec import ModelSpec

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(operation)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await operation(self.operations, *args, **kwargs)

    return method


def _bound(
    operation: Callable[Concatenate[Operations, str, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AsyncModel, P], Coroutine[Any, Any, T]]:
    @functools.wraps(operation)
    async def method(self: AsyncModel, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await operation(self.operations, self.spec.name, *args, **kwargs)

    return method


class AsyncModel:
    """A model of a cluster, as `dslide.Model`. Made by `AsyncClient.model`."""

    def __init__(self, operations: Operations, spec: ModelSpec) -> None:
        self.operations = operations
        self.spec = spec

    gather = _bound(Operations.gather)
    gather_rows = _bound(Operations.gather_rows)
    select = _bound(Operations.select)
    top_k = _bound(Operations.top_k)
    scatter = _bound(Operations.scatter)
    describe = _bound(Operations.describe_model)
    save_checkpoint = _bound(Operations.save_checkpoint)
    restore_checkpoint = _bound(Operations.restore_checkpoint)


class AsyncClient:
    """A cluster, for one event loop. Made by `dslide.aio.connect`."""

    def __init__(self, address: str, settings: Settings) -> None:
        self._address = address
        self._settings = settings
        self._operations: Operations | None = None

    @property
    def operations(self) -> Operations:
        if self._operations is None:
            raise RuntimeError("not connected: use `async with dslide.aio.connect(…) as cluster`")
        return self._operations

    async def __aenter__(self) -> AsyncClient:
        self._operations = Operations(AsyncIo(), self._address, self._settings)
        try:
            await self._operations.open()
        except BaseException:
            await self._operations.close()
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
        return len(self.operations.shards)

    async def model(self, name: str) -> AsyncModel:
        """A model of the cluster. Raises NotFoundError naming those that there are."""
        return AsyncModel(self.operations, await self.operations.model(name))

    async def create_model(self, spec: Any) -> AsyncModel:
        """As `dslide.Client.create_model`."""
        return AsyncModel(self.operations, await self.operations.create_model(spec))

    close = _awaited(Operations.close)
    cluster_map = _awaited(Operations.cluster_map)
    status = _awaited(Operations.status)
    metrics = _awaited(Operations.metrics)
    list_models = _awaited(Operations.list_models)
    drop_model = _awaited(Operations.drop_model)
    save_cluster_checkpoint = _awaited(Operations.save_cluster_checkpoint)
    list_cluster_checkpoints = _awaited(Operations.list_cluster_checkpoints)
    restore_cluster_checkpoint = _awaited(Operations.restore_cluster_checkpoint)
    register_job = _awaited(Operations.register_job)
    acquire_work = _awaited(Operations.acquire_work)
    leave_job = _awaited(Operations.leave_job)
    job_status = _awaited(Operations.job_status)


def connect(
    address: str = "127.0.0.1:7000",
    *,
    tls: Tls | None = None,
    timeout: float = 30.0,
    patience: float = 4.0,
    job: str = "default",
    insecure: bool = False,
) -> AsyncClient:
    """As `dslide.connect`; connects when the `async with` begins."""
    return AsyncClient(
        address, Settings(tls=tls, insecure=insecure, timeout=timeout, patience=patience, job=job)
    )
