"""What python_benchmark.py runs inside the environment of the Python package.

usage: measure_client.py rows PROGRAM SHARDS [--quick]
       measure_client.py train ADDRESS SPEC DATA STEPS

The last line of stdout is one JSON value.
"""

import json
import statistics
import sys
import time

import dslide
import numpy as np
from dslide.v1 import shard_pb2

TABLE_ROWS = 200_000
DIM = 128
ROUNDS = 31


def gather_with_stubs(cluster, ids):
    """A plain loop over the generated code, as anybody would write it."""
    owners = cluster.connection.owners(cluster.model("bench").spec.tables[0].num_slots)
    blocks = []
    for shard, peer in enumerate(cluster.connection.shards):
        mine = ids[owners[ids % len(owners)] == shard].astype("<u4")
        request = shard_pb2.GatherRequest(model="bench", table="rows", rows=shard_pb2.RowSelection(
            row_ids=mine.tobytes()))
        for answer in peer.stub.Gather(request):
            values = answer.rows.values
            blocks.append(np.frombuffer(values.data, "<f4").reshape(values.rows, values.cols))
    return blocks


def measure_rows(cluster, count, rounds):
    model = cluster.model("bench")
    rng = np.random.default_rng(count)
    ids = np.sort(rng.choice(TABLE_ROWS, count, replace=False))
    values = rng.standard_normal((count, DIM), dtype=np.float32)
    out = np.empty_like(values)
    calls = {
        "stubs_gather": lambda: gather_with_stubs(cluster, ids),
        "gather": lambda: model.gather("rows", ids, out=out),
        "scatter": lambda: model.scatter("rows", ids, values, mode="add"),
    }
    seconds = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begin)
    # The first round connects and warms up.
    return {"rows": count, "dim": DIM, "shards": cluster.num_shards, "repeats": rounds} | {
        f"{name}_gbps": count * DIM * 4 / statistics.median(mine[1:]) / 1e9
        for name, mine in seconds.items()}


def rows(program, shards, quick):
    dslide.keep_freed_memory()
    with dslide.local(int(shards), binary=program) as cluster:
        cluster.create_model({"name": "bench", "tables": [
            {"name": "rows", "role": "embedding", "rows": TABLE_ROWS, "dim": DIM}]})
        return [measure_rows(cluster, count, 3 if quick else ROUNDS) for count in (10_000, 100_000)]


def train(address, spec, data, steps):
    spec = dslide.load_spec(spec)
    spec.training.validation_fraction = 0
    with dslide.connect(address, timeout=300) as cluster, \
            dslide.Trainer(cluster, spec, data, max_steps=int(steps), progress=False) as trainer:
        report = trainer.train()
    return {"samples_per_second": report.samples_per_second, "loss": report.last_loss,
            "steps": report.steps}


def main():
    command, *arguments = sys.argv[1:]
    result = train(*arguments) if command == "train" else rows(*arguments[:2], "--quick" in arguments)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
