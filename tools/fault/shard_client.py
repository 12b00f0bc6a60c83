"""The calls of a shard and of the coordinator that the fault tests need.

Each takes a grpc_client.Connection; CallFailed and ConnectionLost pass through. Row arithmetic is
that of core/partition with equal capacity weights: shard = (row % num_slots) % num_shards.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from dslide.v1 import coordinator_pb2, model_pb2, shard_pb2
from dslide.v1.common_pb2 import ELEMENT_TYPE_F32, Matrix, RequestEnvelope, RowBlock
from dslide.v1.model_pb2 import ModelSpec, TableSpec
from google.protobuf.duration_pb2 import Duration
from grpc_client import CallFailed, Connection
from processes import PATIENCE_SECONDS

MAGNITUDE_BOUND = 1e30
OPERATION_WAIT_SECONDS = 5  # for the end of one, at a time


def server_info(connection: Connection) -> shard_pb2.GetServerInfoResponse:
    return connection.call(shard_pb2.GetServerInfoRequest(), shard_pb2.GetServerInfoResponse)


# --- models --------------------------------------------------------------------------------------


def table_spec(name: str, rows: int, dim: int, num_slots: int = 64, init: str = "zero",
               optimizer: str = "sgd", role: str = "embedding") -> TableSpec:
    """A table without bias and hashing, of rows that tests add to."""
    table = TableSpec(name=name, role=role, rows=rows, dim=dim, num_slots=num_slots)
    table.init.kind, table.init.scale = init, 0.5
    table.optimizer.kind, table.optimizer.learning_rate = optimizer, 0.01
    if role == "head":
        # No limit of active rows, no tail, no samples of recall.
        table.head.max_active = table.head.tail_rows = table.head.recall_samples = 0
    return table


def model_spec(name: str, *tables: TableSpec) -> ModelSpec:
    return ModelSpec(name=name, seed=1, tables=tables, magnitude_bound=MAGNITUDE_BOUND)


def rows_of_shard(table: TableSpec, shard: int, num_shards: int) -> list[int]:
    """The rows of a table that a shard holds, ascending."""
    return [row for row in range(table.rows) if row % table.num_slots % num_shards == shard]


def register_model(connection: Connection, model: ModelSpec) -> None:
    """Creates the model on every shard of the coordinator's cluster."""
    connection.call(coordinator_pb2.RegisterModelRequest(spec=model),
                    coordinator_pb2.RegisterModelResponse)


def create_model(connection: Connection, model: ModelSpec, shard: int = 0,
                 num_shards: int = 1) -> None:
    """Creates one shard's part on a shard without a coordinator."""
    slots = [model_pb2.SlotAssignment(
        num_slots=count, num_shards=num_shards,
        owners=struct.pack(f"<{count}H", *(slot % num_shards for slot in range(count))))
        for count in sorted({table.num_slots for table in model.tables})]
    connection.call(shard_pb2.CreateModelRequest(
        spec=model, shard_id=shard, slots=slots, topology_version=1), shard_pb2.CreateModelResponse)


def drop_model(connection: Connection, model: str) -> None:
    connection.call(shard_pb2.DropModelRequest(model=model), shard_pb2.DropModelResponse)


@dataclasses.dataclass(frozen=True)
class TableState:
    """A shard's part of a table; the spec is that of the whole table."""

    spec: TableSpec
    shard_rows: int
    applied_steps: int
    digest: int


def describe_model(connection: Connection, model: str) -> dict[str, TableState]:
    """{table name: its state} of one shard, digests included."""
    found = connection.call(shard_pb2.DescribeModelRequest(model=model, with_digests=True),
                            shard_pb2.DescribeModelResponse)
    specs = {spec.name: spec for spec in found.spec.tables}
    return {table.name: TableState(specs[table.name], table.shard_rows, table.applied_steps,
                                   table.digest) for table in found.tables}


def cluster_map(connection: Connection) -> coordinator_pb2.GetClusterMapResponse:
    """The shards of the coordinator's cluster by ordinal; CallFailed until all are there, and while
    the cluster is restored (restore_count says how often it was)."""
    return connection.call(coordinator_pb2.GetClusterMapRequest(),
                           coordinator_pb2.GetClusterMapResponse)


def cluster_status(connection: Connection) -> coordinator_pb2.GetClusterStatusResponse:
    return connection.call(coordinator_pb2.GetClusterStatusRequest(),
                           coordinator_pb2.GetClusterStatusResponse)


def models(connection: Connection) -> list[ModelSpec]:
    """Those that the coordinator knows, by name."""
    found = connection.call(coordinator_pb2.ListModelsRequest(), coordinator_pb2.ListModelsResponse)
    return sorted(found.models, key=lambda model: model.name)


def job_samples(connection: Connection, job: str) -> int:
    """Points that a job has trained over all of its epochs; 0 when the coordinator has no such."""
    return sum(found.epoch * found.samples_per_epoch + found.samples_done
               for found in cluster_status(connection).jobs if found.job == job)


def catalog(connection: Connection) -> dict[str, Any]:
    """What a coordinator remembers of its cluster, comparable: models, shards, topology."""
    status = cluster_status(connection)
    return {"models": [model.SerializeToString() for model in models(connection)],
            "topology_version": status.topology_version, "expected_shards": status.expected_shards,
            "shards": [(shard.shard_id, shard.address, shard.capacity_weight, shard.generation)
                       for shard in status.shards]}


# --- rows ----------------------------------------------------------------------------------------


def floats(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def ids(rows: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(rows)}I", *rows)


def matrix(rows: Sequence[Sequence[float]], dim: int) -> Matrix:
    return Matrix(rows=len(rows), cols=dim, element_type=ELEMENT_TYPE_F32,
                  data=floats([value for row in rows for value in row]))


def scatter_add(connection: Connection, envelope: RequestEnvelope, table: TableSpec,
                rows: Mapping[int, Sequence[float]], timeout: float = PATIENCE_SECONDS,
                biases: bool = False) -> shard_pb2.ScatterResponse:
    """Adds to rows: {row id: [dim floats]}; their biases get 0, where they have one."""
    row_ids = sorted(rows)
    block = RowBlock(row_ids=ids(row_ids), values=matrix([rows[row] for row in row_ids], table.dim),
                     biases=bytes(4 * len(row_ids)) if biases else b"")
    return connection.call(shard_pb2.ScatterRequest(
        envelope=envelope, table=table.name, mode=shard_pb2.SCATTER_MODE_ADD, rows=block,
        total_rows=len(row_ids)), shard_pb2.ScatterResponse, timeout)


def gather_bytes(connection: Connection, model: str, table: str,
                 row_ids: Sequence[int]) -> tuple[bytes, bytes]:
    """(weights, biases) of the rows in ascending order of their ids: f32 bytes, row-major."""
    chunks = connection.call_stream(shard_pb2.GatherRequest(
        model=model, table=table, rows=shard_pb2.RowSelection(row_ids=ids(row_ids))),
        shard_pb2.GatherResponse)
    return (b"".join(chunk.rows.values.data for chunk in chunks),
            b"".join(chunk.rows.biases for chunk in chunks))


# --- identity ------------------------------------------------------------------------------------


def envelope_of(job: str, client_id: bytes, sequence: int, first_incomplete: int, generation: int,
                model: str) -> RequestEnvelope:
    return RequestEnvelope(job=job, client_id=client_id, sequence=sequence,
                           first_incomplete=first_incomplete, generation=generation, model=model)


def hello(connection: Connection, job: str, client_id: bytes, acknowledged: int,
          timeout: float = PATIENCE_SECONDS) -> shard_pb2.HelloResponse:
    return connection.call(shard_pb2.HelloRequest(
        job=job, client_id=client_id, acknowledged_sequence=acknowledged),
        shard_pb2.HelloResponse, timeout)


def close_client(connection: Connection, job: str, client_id: bytes,
                 timeout: float = PATIENCE_SECONDS) -> None:
    connection.call(shard_pb2.CloseClientRequest(job=job, client_id=client_id),
                    shard_pb2.CloseClientResponse, timeout)


# --- checkpoints ---------------------------------------------------------------------------------


def write_checkpoint(connection: Connection, model: str, checkpoint: str) -> None:
    connection.call(shard_pb2.WriteCheckpointRequest(model=model, checkpoint=checkpoint),
                    shard_pb2.WriteCheckpointResponse)


def load_checkpoint(connection: Connection, model: str, checkpoint: str) -> None:
    connection.call(shard_pb2.LoadCheckpointRequest(model=model, checkpoint=checkpoint),
                    shard_pb2.LoadCheckpointResponse)


def create_cluster_checkpoint(connection: Connection) -> coordinator_pb2.ClusterCheckpoint:
    """The checkpoint that was committed; CallFailed when it was not."""
    operation = connection.call(coordinator_pb2.CreateClusterCheckpointRequest(),
                                coordinator_pb2.CreateClusterCheckpointResponse).operation
    while not operation.done:
        operation = connection.call(coordinator_pb2.GetOperationRequest(
            operation_id=operation.operation_id, wait=Duration(seconds=OPERATION_WAIT_SECONDS)),
            coordinator_pb2.GetOperationResponse).operation
    if operation.HasField("error"):
        code, = (code for code in grpc.StatusCode if code.value[0] == operation.error.code)
        raise CallFailed(operation.kind, code, operation.error.reason, operation.error.message)
    return operation.create_cluster_checkpoint
