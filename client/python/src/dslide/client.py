"""The blocking client. `dslide.aio` has the same for asyncio."""

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
from dslide._io import BlockingIo, run_blocking
from dslide._transport import Settings, Tls
from dslide.spec import ModelSpec

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    operation: Callable[Concatenate[Connection, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    @functools.wraps(operation)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(operation(self.connection, *args, **kwargs))

    return method


def _bound(
    operation: Callable[Concatenate[Connection, str, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Model, P], T]:
    @functools.wraps(operation)
    def method(self: Model, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(operation(self.connection, self.spec.name, *args, **kwargs))

    return method


class Model:
    """A model of a cluster: its spec, and the rows of its tables. Made by `Client.model`."""

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


class Client:
    """A cluster. Made by `dslide.connect`; closed by `close` or at the end of a `with`.

    Thread-safe. Not to be used in a child after `os.fork`: connect again there (gRPC's threads do
    not survive a fork).
    """

    def __init__(self, address: str, settings: Settings) -> None:
        self.connection = Connection(BlockingIo(), address, settings)
        try:
            run_blocking(self.connection.open())
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
        return len(self.connection.shards)

    def model(self, name: str) -> Model:
        """A model of the cluster. Raises NotFoundError naming those that there are."""
        return Model(self.connection, run_blocking(_models.model(self.connection, name)))

    def create_model(self, spec: Any) -> Model:
        """Creates a model on all shards; an equal one that is there is left as it is.

        `spec` is a ModelSpec, its dictionary, or the path of its JSON file; every table has rows.
        Raises FailedPreconditionError when a different one has the name.
        """
        return Model(self.connection, run_blocking(_models.create_model(self.connection, spec)))

    close = _blocking(Connection.close)
    cluster_map = _blocking(Connection.cluster_map)
    status = _blocking(_status.status)
    metrics = _blocking(_status.metrics)
    list_models = _blocking(_models.list_models)
    drop_model = _blocking(_models.drop_model)
    grow_model = _blocking(_models.grow_model)
    retire_labels = _blocking(_models.retire_labels)
    label_names = _blocking(_texts.label_names)
    model_assets = _blocking(_assets.model_assets)
    put_model_assets = _blocking(_assets.put_model_assets)
    save_cluster_checkpoint = _blocking(_checkpoints.save_cluster_checkpoint)
    list_cluster_checkpoints = _blocking(_checkpoints.list_cluster_checkpoints)
    verify_cluster_checkpoint = _blocking(_checkpoints.verify_cluster_checkpoint)
    prune_cluster_checkpoints = _blocking(_checkpoints.prune_cluster_checkpoints)
    restore_cluster_checkpoint = _blocking(_checkpoints.restore_cluster_checkpoint)
    register_job = _blocking(_jobs.register_job)
    acquire_work = _blocking(_jobs.acquire_work)
    leave_job = _blocking(_jobs.leave_job)
    cancel_job = _blocking(_jobs.cancel_job)
    delete_job = _blocking(_jobs.delete_job)
    list_jobs = _blocking(_jobs.list_jobs)
    job_status = _blocking(_jobs.job_status)
    list_operations = _blocking(_operations.list_operations)
    cancel_operation = _blocking(_operations.cancel_operation)


def connect(
    address: str = "127.0.0.1:7000",
    *,
    tls: Tls | None = None,
    timeout: float = 30.0,
    patience: float = 4.0,
    job: str = "default",
    insecure: bool = False,
    request_id: str = "",
) -> Client:
    """Connects to the coordinator at `address` and to its shards.

    Parameters
    ----------
    address : "host:port" or "unix:PATH"
    tls : certificates; None: plaintext, which may not leave this machine unless `insecure`
    timeout : seconds; the deadline of every call
    patience : seconds for which a call is repeated while nobody answers
    job : names the training job in every change of rows, [a-z0-9-]{1,64}
    request_id : what every call sends as x-request-id, for the servers' logs; "": one for each call

    Raises
    ------
    UnavailableError : nobody answers, or shards are missing
    FailedPreconditionError : the cluster is of another version
    InvalidArgumentError : a malformed address, or files that are no certificates
    """
    return Client(
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
