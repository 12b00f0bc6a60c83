"""Checkpoints of one model, and of the whole cluster."""

from __future__ import annotations

from dslide._connection import Connection
from dslide._operations import all_pages, finish
from dslide.v1 import coordinator_pb2


async def save_checkpoint(
    connection: Connection, model: str, checkpoint: str
) -> coordinator_pb2.CheckpointWritten:
    """Makes every shard write a model's rows under that name; needs data directories."""
    request = coordinator_pb2.CreateCheckpointRequest(model=model, checkpoint=checkpoint)
    done = await finish(connection, "CreateCheckpoint", request)
    return done.create_checkpoint


async def restore_checkpoint(connection: Connection, model: str, checkpoint: str) -> int:
    """Makes every shard take a model's rows from it; returns how many there are."""
    request = coordinator_pb2.RestoreCheckpointRequest(model=model, checkpoint=checkpoint)
    done = await finish(connection, "RestoreCheckpoint", request)
    return int(done.restore_checkpoint.rows)


async def save_cluster_checkpoint(connection: Connection) -> coordinator_pb2.ClusterCheckpoint:
    """Takes a checkpoint of the whole cluster at one cut, while trainers go on."""
    request = coordinator_pb2.CreateClusterCheckpointRequest()
    done = await finish(connection, "CreateClusterCheckpoint", request)
    return done.create_cluster_checkpoint


async def list_cluster_checkpoints(
    connection: Connection,
) -> list[coordinator_pb2.ClusterCheckpoint]:
    """The cluster's checkpoints, the newest first."""
    pages = await all_pages(
        connection, "ListClusterCheckpoints", coordinator_pb2.ListClusterCheckpointsRequest()
    )
    return [checkpoint for page in pages for checkpoint in page.checkpoints]


async def verify_cluster_checkpoint(
    connection: Connection, checkpoint_id: int = 0
) -> coordinator_pb2.ClusterCheckpointVerified:
    """Reads every byte of one on every shard, 0: of the newest. DataLossError: what differs."""
    request = coordinator_pb2.VerifyClusterCheckpointRequest(checkpoint_id=checkpoint_id)
    done = await finish(connection, "VerifyClusterCheckpoint", request)
    return done.verify_cluster_checkpoint


async def prune_cluster_checkpoints(connection: Connection, keep: int) -> list[int]:
    """Removes all but the newest `keep`, at least 1; returns the numbers of the removed ones."""
    response = await connection.coordinator.call(
        "PruneClusterCheckpoints", coordinator_pb2.PruneClusterCheckpointsRequest(keep=keep)
    )
    return [int(removed) for removed in response.removed]


async def restore_cluster_checkpoint(connection: Connection, checkpoint_id: int = 0) -> int:
    """Restores the whole cluster from a checkpoint, 0: the newest; returns which it was."""
    request = coordinator_pb2.RestoreClusterCheckpointRequest(checkpoint_id=checkpoint_id)
    done = await finish(connection, "RestoreClusterCheckpoint", request)
    return int(done.restore_cluster_checkpoint.checkpoint_id)
