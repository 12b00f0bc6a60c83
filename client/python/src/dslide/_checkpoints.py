"""Checkpoints of one model, and of the whole cluster."""

from __future__ import annotations

from dslide._connection import Connection
from dslide._transport import LONG_TIMEOUT
from dslide.v1 import coordinator_pb2


async def save_checkpoint(
    connection: Connection, model: str, checkpoint: str
) -> coordinator_pb2.CreateCheckpointResponse:
    """Makes every shard write a model's rows under that name; needs data directories."""
    response: coordinator_pb2.CreateCheckpointResponse = await connection.coordinator.call(
        "CreateCheckpoint",
        coordinator_pb2.CreateCheckpointRequest(model=model, checkpoint=checkpoint),
        LONG_TIMEOUT,
    )
    return response


async def restore_checkpoint(connection: Connection, model: str, checkpoint: str) -> int:
    """Makes every shard take a model's rows from it; returns how many there are."""
    response = await connection.coordinator.call(
        "RestoreCheckpoint",
        coordinator_pb2.RestoreCheckpointRequest(model=model, checkpoint=checkpoint),
        LONG_TIMEOUT,
    )
    return int(response.rows)


async def save_cluster_checkpoint(connection: Connection) -> coordinator_pb2.ClusterCheckpoint:
    """Takes a checkpoint of the whole cluster at one cut, while trainers go on."""
    response = await connection.coordinator.call(
        "CreateClusterCheckpoint", coordinator_pb2.CreateClusterCheckpointRequest(), LONG_TIMEOUT
    )
    checkpoint: coordinator_pb2.ClusterCheckpoint = response.checkpoint
    return checkpoint


async def list_cluster_checkpoints(
    connection: Connection,
) -> list[coordinator_pb2.ClusterCheckpoint]:
    """The cluster's checkpoints, the newest first."""
    response = await connection.coordinator.call(
        "ListClusterCheckpoints", coordinator_pb2.ListClusterCheckpointsRequest()
    )
    return list(response.checkpoints)


async def restore_cluster_checkpoint(connection: Connection, checkpoint_id: int = 0) -> int:
    """Restores the whole cluster from a checkpoint, 0: the newest; returns which it was."""
    response = await connection.coordinator.call(
        "RestoreClusterCheckpoint",
        coordinator_pb2.RestoreClusterCheckpointRequest(checkpoint_id=checkpoint_id),
        LONG_TIMEOUT,
    )
    return int(response.checkpoint_id)
