"""Nothing is lost and nothing applied twice, whatever the network and the servers do.

Each update adds 1 to a cell of its own, so the rows say for each update how often it was applied.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, SMALL_SPEC

import dslide

sys.path += [str(ROOT / "tools" / "fault"), str(ROOT / "tools" / "common")]

import grpc_client  # noqa: E402
import processes  # noqa: E402
import shard_client  # noqa: E402
from fault_cluster import FaultCluster  # noqa: E402
from fault_plan import DOWN, UP, Rule  # noqa: E402

UPDATES = 100
KILLS = 6
DIM = 8
SEED = 20261126


def _rules(bytes_between_cuts: int) -> list[Rule]:
    return [
        Rule("delay", seconds=0.0005, jitter=0.002),
        Rule("lose_reply", DOWN, every=60, frame="HEADERS"),
        Rule("cut", UP, every=bytes_between_cuts, times=0),
        Rule("cut", DOWN, every=bytes_between_cuts, times=0),
        Rule("duplicate", UP, every=400, frame="DATA"),
    ]


@pytest.fixture
def faulty(
    request: pytest.FixtureRequest, bin_dir: pathlib.Path, tmp_path: pathlib.Path
) -> Iterator[FaultCluster]:
    """Two shards with command logs behind proxies, and a coordinator, that may all be killed."""
    processes.use_bin_dir(bin_dir)
    # Longer than any shard is away: a lease that runs out is trained by somebody else, too.
    with FaultCluster(
        tmp_path, 2, "log", seed=SEED, rules=_rules(request.param), lease_timeout="300s"
    ) as cluster:
        cluster.start()
        yield cluster


def _connect(cluster: FaultCluster) -> dslide.Client:
    return dslide.connect(cluster.coordinator_address, timeout=300, patience=300)


def _applied(cluster: FaultCluster, model: str) -> int:
    """The updates of the model that the shard with the fewest has applied; 0 while one is away."""
    counts = []
    with contextlib.suppress(grpc_client.ConnectionLost, grpc_client.CallFailed):
        for shard in range(cluster.num_shards):
            with grpc_client.Connection(cluster.direct_address(shard)) as connection:
                tables = shard_client.describe_model(connection, model)
            counts.append(sum(table.applied_steps for table in tables.values()))
        return min(counts)
    return 0


def _kill_while(work: Future[Any], cluster: FaultCluster, members: list[Any], model: str) -> int:
    """Kills servers in turn and starts them again while the work is done; how many.

    On the test's own thread: servers die with the thread that has started them. Not for ever: a job
    whose coordinator dies begins anew. Between two kills the work gets on, however busy the machine
    is.
    """
    moments = random.Random(SEED)
    kills, applied = 0, 0

    def got_on() -> bool:
        return work.done() or _applied(cluster, model) > applied

    while kills < KILLS:
        processes.wait_until(got_on, lambda: "an update")
        if work.done():
            break
        applied = _applied(cluster, model)
        time.sleep(moments.uniform(0, 0.5))
        member = moments.choice(members)
        member.kill()
        time.sleep(moments.uniform(0, 0.2))
        member.start()
        cluster.wait_until_ready()
        kills += 1
    return kills


@pytest.mark.parametrize("faulty", [20_000], indirect=True)
def test_every_update_is_applied_once(faulty: FaultCluster) -> None:
    # An update adds 1 to a cell of its own in half of the rows, so all shards take part in it.
    spec = dslide.load_spec(
        {
            "name": "cells",
            "tables": [
                {
                    "name": "cells",
                    "role": "embedding",
                    "rows": 2 * UPDATES,
                    "dim": DIM,
                    "init": {"kind": "zero"},
                }
            ],
        }
    )
    rows = np.arange(2 * UPDATES)
    expected = np.zeros((2 * UPDATES, DIM), np.float32)

    def update() -> None:
        with _connect(faulty) as cluster:
            model = cluster.create_model(spec)
            for number in range(UPDATES):
                values = np.zeros((UPDATES, DIM), np.float32)
                values[number, number % DIM] = 1
                mine = rows[:UPDATES] if number % 2 else rows[UPDATES:]
                model.scatter("cells", mine, values, mode="add")
                expected[mine] += values

    with ThreadPoolExecutor(1) as threads:
        work = threads.submit(update)
        kills = _kill_while(work, faulty, [*faulty.shards, faulty.coordinator], "cells")
        work.result()
    with _connect(faulty) as cluster:
        model = cluster.model("cells")
        np.testing.assert_array_equal(model.gather("cells", rows), expected)
        for part in model.describe():
            assert part.tables[0].applied_steps == UPDATES
    assert kills > 0
    assert faulty.faults().get("cut", 0) > 0, faulty.faults()


@pytest.mark.parametrize("faulty", [400_000], indirect=True)
def test_two_trainers_share_a_job_while_servers_die(
    faulty: FaultCluster,
    bin_dir: pathlib.Path,
    small_data: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    spec = tmp_path / "spec.json"
    epochs = 5
    spec.write_text(
        json.dumps(
            {
                **SMALL_SPEC,
                "training": {
                    **SMALL_SPEC["training"],
                    "max_epochs": epochs,
                    "validation_fraction": 0,
                },
            }
        )
    )
    train = small_data / "train.txt"

    def learn() -> dslide.Report:
        with (
            _connect(faulty) as cluster,
            dslide.Trainer(cluster, spec, train, job="both", progress=False) as trainer,
        ):
            return trainer.train()

    members = [*faulty.shards, faulty.coordinator]
    with (
        ThreadPoolExecutor(1) as threads,
        subprocess.Popen(
            [
                bin_dir / "dslide",
                "train",
                "-q",
                "-o",
                "json",
                "--data",
                train,
                "--model",
                spec,
                "--cluster",
                faulty.coordinator_address,
                "--job",
                "both",
                "--timeout",
                "300s",
            ],
            stdout=subprocess.PIPE,
            text=True,
        ) as other,
    ):
        work = threads.submit(learn)
        kills = _kill_while(work, faulty, members, "small")
        report = work.result()
        theirs = json.loads(other.communicate(timeout=600)[0].splitlines()[-1])
        assert other.returncode == 0
    assert kills > 0
    with _connect(faulty) as cluster:
        # A step is one update of each shard's part of a table: none is lost, none doubled.
        for part in cluster.model("small").describe():
            assert {table.applied_steps for table in part.tables} == {
                report.steps + theirs["steps"]
            }
    # The coordinator keeps the job: no chunk is trained twice, whoever was killed.
    points = dslide.read_sparse(train)
    labelled = int((np.diff(points.labels.offsets) > 0).sum())
    cpp_samples = round(theirs["samples_per_second"] * theirs["seconds"])
    assert report.samples + cpp_samples == epochs * labelled
