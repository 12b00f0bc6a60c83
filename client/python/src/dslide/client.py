"""The blocking client. `dslide.aio` has the same for asyncio."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from dslide._io import BlockingIo, run_blocking
from dslide._operations import Operations
from dslide._transport import Settings, Tls
from dslide.spec import ModelSpec

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    operation: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    @functools.wraps(operation)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(operation(self.operations, *args, **kwargs))

    return method


def _bound(
    operation: Callable[Concatenate[Operations, str, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Model, P], T]:
    @functools.wraps(operation)
    def method(self: Model, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(operation(self.operations, self.spec.name, *args, **kwargs))

    return method


class Model:
    """A model of a cluster: its spec, and the rows of its tables. Made by `Client.model`."""

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


class Client:
    """A cluster. Made by `dslide.connect`; closed by `close` or at the end of a `with`.

    Thread-safe. Not to be used in a child after `os.fork`: connect again there (gRPC's threads do
    not survive a fork).
    """

    def __init__(self, address: str, settings: Settings) -> None:
        self.operations = Operations(BlockingIo(), address, settings)
        try:
            run_blocking(self.operations.open())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def num_shards(self) -> int:
        return len(self.operations.shards)

    def model(self, name: str) -> Model:
        """A model of the cluster. Raises NotFoundError naming those that there are."""
        return Model(self.operations, run_blocking(self.operations.model(name)))

    def create_model(self, spec: Any) -> Model:
        """Creates a model on all shards; an equal one that is there is left as it is.

        `spec` is a ModelSpec, its dictionary, or the path of its JSON file; every table has rows.
        Raises FailedPreconditionError when a different one has the name.
        """
        return Model(self.operations, run_blocking(self.operations.create_model(spec)))

    close = _blocking(Operations.close)
    cluster_map = _blocking(Operations.cluster_map)
    status = _blocking(Operations.status)
    metrics = _blocking(Operations.metrics)
    list_models = _blocking(Operations.list_models)
    drop_model = _blocking(Operations.drop_model)
    save_cluster_checkpoint = _blocking(Operations.save_cluster_checkpoint)
    list_cluster_checkpoints = _blocking(Operations.list_cluster_checkpoints)
    restore_cluster_checkpoint = _blocking(Operations.restore_cluster_checkpoint)
    register_job = _blocking(Operations.register_job)
    acquire_work = _blocking(Operations.acquire_work)
    leave_job = _blocking(Operations.leave_job)
    job_status = _blocking(Operations.job_status)


def connect(
    address: str = "127.0.0.1:7000",
    *,
    tls: Tls | None = None,
    timeout: float = 30.0,
    patience: float = 4.0,
    job: str = "default",
    insecure: bool = False,
) -> Client:
    """Connects to the coordinator at `address` and to its shards.

    Parameters
    ----------
    address : "host:port" or "unix:PATH"
    tls : certificates; None: plaintext, which may not leave this machine unless `insecure`
    timeout : seconds; the deadline of every call
    patience : seconds for which a call is repeated while nobody answers
    job : names the training job in every change of rows, [a-z0-9-]{1,64}

    Raises
    ------
    UnavailableError : nobody answers, or shards are missing
    FailedPreconditionError : the cluster is of another version
    InvalidArgumentError : a malformed address, or files that are no certificates
    """
    return Client(
        address, Settings(tls=tls, insecure=insecure, timeout=timeout, patience=patience, job=job)
    )
