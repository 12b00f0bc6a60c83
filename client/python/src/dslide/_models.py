"""The models of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dslide import hashing
from dslide._connection import Connection
from dslide._operations import all_pages
from dslide._transport import LONG_TIMEOUT
from dslide.errors import InvalidArgumentError, NotFoundError
from dslide.spec import load_spec, resolved_head
from dslide.v1 import coordinator_pb2, model_pb2, shard_pb2


async def create_model(connection: Connection, spec: Any) -> model_pb2.ModelSpec:
    """Creates a model on all shards, unless an equal one is there."""
    model = load_spec(spec)
    await connection.coordinator.call(
        "RegisterModel", coordinator_pb2.RegisterModelRequest(spec=model)
    )
    connection.families.pop(model.name, None)
    return await _open(connection, model)


async def _open(connection: Connection, spec: model_pb2.ModelSpec) -> model_pb2.ModelSpec:
    await connection.learn_owners(spec)
    connection.specs[spec.name] = spec
    return spec


async def list_models(connection: Connection) -> list[model_pb2.ModelSpec]:
    """All models of the cluster."""
    pages = await all_pages(connection, "ListModels", coordinator_pb2.ListModelsRequest())
    return [model for page in pages for model in page.models]


async def model(connection: Connection, name: str) -> model_pb2.ModelSpec:
    """The spec of a model. Raises NotFoundError naming those that there are."""
    if name in connection.specs:
        return connection.specs[name]
    known = {spec.name: spec for spec in await list_models(connection)}
    if name not in known:
        there = f"it has: {', '.join(known)}" if known else "it has none: train one first"
        raise NotFoundError(f"the cluster has no model {name!r}; {there}", reason="UNKNOWN_MODEL")
    return await _open(connection, known[name])


async def describe_model(
    connection: Connection, name: str, *, digests: bool = False
) -> list[shard_pb2.DescribeModelResponse]:
    """What each shard holds of a model, by ordinal; digests cost a pass over all rows."""
    request = shard_pb2.DescribeModelRequest(model=name, with_digests=digests)
    timeout = LONG_TIMEOUT if digests else connection.settings.timeout
    return await connection.io.gather(
        [shard.call("DescribeModel", request, timeout) for shard in connection.shards]
    )


async def drop_model(connection: Connection, name: str) -> None:
    """Drops a model and its rows, everywhere."""
    connection.specs.pop(name, None)
    await connection.coordinator.call(
        "UnregisterModel", coordinator_pb2.UnregisterModelRequest(model=name)
    )


async def grow_model(
    connection: Connection,
    name: str,
    table: str = "",
    rows: int = 0,
    *,
    labels: int = 0,
    dry_run: bool = False,
) -> model_pb2.ModelSpec:
    """Gives a table `rows` rows, while the model is trained; the model's spec then.

    The table is an embedding, a head, or a memory, which has room for so many points. `labels`
    instead gives the model labels, in all tables that follow from them. With as many as it has
    nothing changes; with `dry_run` the shards only say whether they have the memory. A `Model` that
    was made before keeps the spec that it has.

    Raises FailedPreconditionError for less than there is; InvalidArgumentError for neither or both;
    ResourceExhaustedError.
    """
    response = await connection.coordinator.call(
        "GrowModel",
        coordinator_pb2.GrowModelRequest(
            model=name, table=table, rows=rows, labels=labels, dry_run=dry_run
        ),
    )
    grown: model_pb2.ModelSpec = response.spec
    return grown if dry_run else await _open(connection, grown)


async def retire_labels(
    connection: Connection,
    name: str,
    labels: Iterable[int],
    *,
    restore: bool = False,
    dry_run: bool = False,
) -> model_pb2.ModelSpec:
    """Leaves labels out of all predictions from now on; the model's spec then.

    Their rows in the head are freed: they read as zeros, and no update changes them. With
    `restore` they may be predicted again and learn anew, from first values; with `dry_run`
    nothing changes.

    Raises InvalidArgumentError for labels that the model does not have, and when none is left.
    """
    response = await connection.coordinator.call(
        "RetireLabels",
        coordinator_pb2.RetireLabelsRequest(
            model=name, labels=",".join(map(str, labels)), restore=restore, dry_run=dry_run
        ),
    )
    changed: model_pb2.ModelSpec = response.spec
    return changed if dry_run else await _open(connection, changed)


async def adopt_growth(
    connection: Connection, wanted: model_pb2.ModelSpec, *, grow: bool
) -> model_pb2.ModelSpec:
    """What is wanted, with the rows that the model of the cluster has by now.

    With `grow` that model gets the rows that are wanted first.
    """
    known = {spec.name: spec for spec in await list_models(connection)}.get(wanted.name)
    if known is None:
        return wanted
    for table in wanted.tables:
        have = {each.name: each for each in known.tables}.get(table.name)
        if have is None or table.role not in ("embedding", "head"):
            continue
        if grow and table.rows > have.rows:
            known = await grow_model(connection, known.name, table.name, table.rows)
            have = {each.name: each for each in known.tables}[table.name]
        if have.base_rows and have.base_rows <= table.rows <= have.rows:
            table.rows, table.base_rows = have.rows, have.base_rows
    return wanted


async def find_table(connection: Connection, name: str, table: str) -> model_pb2.TableSpec:
    """A table of a model; who owns its slots is known then."""
    spec = await model(connection, name)
    for known in spec.tables:
        if known.name == table:
            return known
    names = ", ".join(known.name for known in spec.tables)
    raise InvalidArgumentError(
        f"model {name!r} has no table {table!r}; it has: {names}", reason="UNKNOWN_TABLE"
    )


def hash_family(
    connection: Connection, name: str, table: model_pb2.TableSpec
) -> hashing.HashFamily | None:
    """How a model's head is hashed; None: every row is active."""
    if table.role != "head" or table.head.max_active == 0:
        return None
    if name not in connection.families:
        connection.families[name] = hashing.hash_family(resolved_head(table).hash, table.dim)
    return connection.families[name]
