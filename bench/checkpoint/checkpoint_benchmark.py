"""Seconds of a full cluster checkpoint and of an increment, of one shard with one large table.

usage: checkpoint_benchmark.py --bin-dir DIR [--gib 1.0] [--changed 0.05] [--rounds 5]
           [--directory DIR] [-o json]

A round takes a full checkpoint and then increments, each after --changed of the rows, chosen at
random, were changed by a scatter. Nothing trains meanwhile. The disk is that of --directory.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/common"))
sys.path.insert(0, str(ROOT / "tests/fault"))

from programs import processes  # noqa: E402
import fault_cluster  # noqa: E402
import grpc_client  # noqa: E402
import shard_client  # noqa: E402
from protobuf import decode, last  # noqa: E402

DIM = 128
RECORD_BYTES = 1600  # of f32 with Adam
GIB = 1 << 30
ROWS_OF_A_SCATTER = 1500
CALL_SECONDS = 120
INCREMENTS = 3


def take_checkpoint(connection):
    """Takes one; its kind, seconds, stall_seconds and written_bytes."""
    reply = connection.unary("/dslide.v1.CoordinatorService/CreateClusterCheckpoint", b"",
                             CALL_SECONDS)
    if not reply.ok:
        raise RuntimeError(f"no checkpoint was taken: {reply}")
    checkpoint = decode(last(decode(reply.messages[0]), 1))
    parts = [decode(part) for part in checkpoint[4]]
    return {"kind": "incremental" if any(last(part, 7, 0) for part in parts) else "full",
            "stall_seconds": last(checkpoint, 9, 0) / 1e6,
            "seconds": last(checkpoint, 10, 0) / 1e6,
            "written_bytes": sum(last(part, 8, 0) for part in parts)}


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
        envelope = shard_client.Envelope("bench", self._client, self._sequence, self._sequence,
                                         self._welcome.generation, self._model.name)
        shard_client.scatter_answer(shard_client.scatter_add(
            connection, envelope, self._model.tables[0], {row: [1e-3] * DIM for row in rows},
            CALL_SECONDS))


def measure(options, directory):
    rows = int(options.gib * GIB / RECORD_BYTES)
    table = shard_client.Table("rows", rows, DIM, optimizer=shard_client.OPTIMIZER_ADAM)
    model = shard_client.Model("bench", (table,))
    flags = ["--checkpoint-interval", "off", "--checkpoint-full-every", INCREMENTS + 1]
    found = {"full": [], "incremental": []}
    with fault_cluster.FaultCluster(directory, 1, "checkpoint", coordinator_flags=flags) as cluster:
        cluster.start()
        with grpc_client.Connection(cluster.coordinator_address) as connection:
            shard_client.register_model(connection, model, CALL_SECONDS)
        changes = Changes(cluster, model)
        chance = random.Random(1)
        for _ in range(options.rounds * (INCREMENTS + 1)):
            changes.change(chance.sample(range(rows), int(options.changed * rows)))
            with grpc_client.Connection(cluster.coordinator_address) as connection:
                taken = take_checkpoint(connection)
            found[taken["kind"]].append(taken)
    gib = rows * RECORD_BYTES / GIB
    result = {"rows": rows, "gib": gib, "changed": options.changed}
    for kind, taken in found.items():
        seconds = [checkpoint["seconds"] for checkpoint in taken]
        result[kind] = {
            "seconds": statistics.median(seconds),
            "seconds_of_each": seconds,
            "seconds_per_gib": statistics.median(seconds) / gib,
            "stall_seconds": statistics.median(c["stall_seconds"] for c in taken),
            "written_bytes": taken[-1]["written_bytes"],
            "gigabytes_per_second": taken[-1]["written_bytes"] / statistics.median(seconds) / 1e9}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin-dir", required=True)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--changed", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", help="where the data lies; default: the temporary one")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    processes.use_bin_dir(options.bin_dir)
    with tempfile.TemporaryDirectory(prefix="dslide-bench-", dir=options.directory) as directory:
        result = measure(options, pathlib.Path(directory))
    if options.output == "json":
        print(json.dumps(result))
        return
    for kind in ("full", "incremental"):
        figures = result[kind]
        print(f"{kind}: {figures['seconds']:.2f} s, {figures['seconds_per_gib']:.2f} s per GiB of "
              f"table, {figures['written_bytes'] / 1e6:.0f} MB written "
              f"({figures['gigabytes_per_second']:.2f} GB/s), changes waited "
              f"{1e3 * figures['stall_seconds']:.0f} ms")


if __name__ == "__main__":
    main()
