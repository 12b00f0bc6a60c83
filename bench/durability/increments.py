"""Full cluster checkpoints and increments of one shard with one large table, while nobody trains."""

import random
import statistics
import sys

from programs import ROOT

sys.path.insert(0, str(ROOT / "tools/fault"))

import fault_cluster  # noqa: E402
import grpc_client  # noqa: E402
import shard_client  # noqa: E402

DIM = 128
RECORD_BYTES = 1600  # of f32 with Adam
GIB = 1 << 30
ROWS_OF_A_SCATTER = 1500
INCREMENTS = 3


def take_checkpoint(connection):
    """Takes one; its kind, seconds, stall_seconds and written_bytes."""
    checkpoint = shard_client.create_cluster_checkpoint(connection)
    parts = checkpoint.parts
    return {"kind": "incremental" if any(part.base_checkpoint_id for part in parts) else "full",
            "stall_seconds": checkpoint.stall.ToTimedelta().total_seconds(),
            "seconds": checkpoint.duration.ToTimedelta().total_seconds(),
            "written_bytes": sum(part.written_bytes for part in parts)}


class Changes:
    """A client that adds to rows."""

    def __init__(self, cluster, model):
        self._address = cluster.direct_address(0)
        self._model = model
        self._client = b"checkpoint-bench"
        self._sequence = 0
        with grpc_client.Connection(self._address) as connection:
            self._welcome = shard_client.hello(connection, "bench", self._client, 0)

    def change(self, rows):
        # A connection of its own each time: one that rests during a checkpoint may be closed.
        with grpc_client.Connection(self._address) as connection:
            for begin in range(0, len(rows), ROWS_OF_A_SCATTER):
                self._scatter(connection, rows[begin:begin + ROWS_OF_A_SCATTER])

    def _scatter(self, connection, rows):
        self._sequence += 1
        envelope = shard_client.envelope_of("bench", self._client, self._sequence, self._sequence,
                                         self._welcome.generation, self._model.name)
        shard_client.scatter_add(
            connection, envelope, self._model.tables[0], {row: [1e-3] * DIM for row in rows})


def measure(directory, gib, changed, rounds):
    """Each round: a full checkpoint and increments, after the share `changed` of the rows of a table
    of `gib` GiB, chosen at random, was changed by a scatter. Medians, for both kinds."""
    rows = int(gib * GIB / RECORD_BYTES)
    table = shard_client.table_spec("rows", rows, DIM, optimizer="adam")
    model = shard_client.model_spec("bench", table)
    flags = ["--checkpoint-interval", "off", "--checkpoint-full-every", INCREMENTS + 1]
    found = {"full": [], "incremental": []}
    with fault_cluster.FaultCluster(directory, 1, "checkpoint", coordinator_flags=flags) as cluster:
        cluster.start()
        with grpc_client.Connection(cluster.coordinator_address) as connection:
            shard_client.register_model(connection, model)
        changes = Changes(cluster, model)
        chance = random.Random(1)
        for _ in range(rounds * (INCREMENTS + 1)):
            changes.change(chance.sample(range(rows), int(changed * rows)))
            with grpc_client.Connection(cluster.coordinator_address) as connection:
                taken = take_checkpoint(connection)
            found[taken["kind"]].append(taken)
    return {"gib": gib, "changed": changed} | {
        kind: figures_of(taken, gib) for kind, taken in found.items()}


def figures_of(taken, gib):
    seconds = statistics.median(one["seconds"] for one in taken)
    return {"seconds": seconds, "seconds_per_gib": seconds / gib,
            "stall_seconds": statistics.median(one["stall_seconds"] for one in taken),
            "written_bytes": taken[-1]["written_bytes"],
            "gb_per_second": taken[-1]["written_bytes"] / seconds / 1e9}
