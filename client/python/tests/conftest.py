"""What the tests share: the programs of a build, and clusters made of them.

`--bin-dir` names the folder of the programs; without it build/bin of the checkout is taken.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

# The tests fork to start programs; none of their children uses gRPC.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"

import numpy as np  # noqa: E402
import pytest  # noqa: E402

import dslide  # noqa: E402

# Within so many seconds every mistake is told: 4 on an idle machine.
SOON = 30
# Of calls that no mistake is in: beside a whole check a disk or a processor may be away for long.
PATIENCE = 300.0
ROOT = pathlib.Path(__file__).resolve().parents[3]
SMALL_SPEC: dict[str, Any] = {
    "name": "small",
    "tables": [
        {
            "name": "input",
            "role": "embedding",
            "dim": 32,
            "bias_row": True,
            "optimizer": {"learning_rate": 0.01},
        },
        {"name": "labels", "role": "head", "dim": 32, "optimizer": {"learning_rate": 0.01}},
    ],
    "activations": "bf16",
    "training": {"max_epochs": 3, "in_flight_steps": 1, "batch_size": 128},
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bin-dir",
        default=str(ROOT / "build" / "bin"),
        help="folder of the programs dslide, dslide-shard and dslide-coordinator",
    )


@pytest.fixture(scope="session")
def bin_dir(request: pytest.FixtureRequest) -> pathlib.Path:
    folder = pathlib.Path(request.config.getoption("--bin-dir")).resolve()
    if not (folder / "dslide").exists():
        pytest.exit(
            f"there are no programs in {folder}: ./run build, or name them with --bin-dir",
            returncode=2,
        )
    os.environ["DSLIDE_BINARY"] = str(folder / "dslide")
    return folder


@pytest.fixture(scope="session")
def run_dslide(bin_dir: pathlib.Path) -> Any:
    """Runs the command line; its JSON result where it has one."""

    def run(*arguments: object) -> Any:
        done = subprocess.run(
            [bin_dir / "dslide", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.strip().splitlines()
        return json.loads(lines[-1]) if lines and lines[-1].startswith("{") else done.stdout

    return run


@pytest.fixture(scope="session")
def small_data(run_dslide: Any, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with train.txt and test.txt: 3,000 and 500 points, 1,000 features, 5,000 labels."""
    folder = tmp_path_factory.mktemp("data")
    shape = ("--features", 1000, "--labels", 5000)
    run_dslide("data", "gen", "--output", folder / "train.txt", "--points", 3000, *shape)
    run_dslide(
        "data",
        "gen",
        "--output",
        folder / "test.txt",
        "--points",
        500,
        "--first-point",
        3000,
        *shape,
    )
    return folder


@pytest.fixture(scope="session")
def cluster(bin_dir: pathlib.Path) -> Iterator[dslide.LocalCluster]:
    with dslide.local(shards=2, threads=2, timeout=PATIENCE) as started:
        yield started


@pytest.fixture
def model(cluster: dslide.LocalCluster) -> Iterator[dslide.Model]:
    """A fresh model with the tables input (601 x 16), hidden (24 x 16) and labels (5000 x 24)."""
    spec = dslide.load_spec(
        {
            "name": "rows",
            "tables": [
                {"name": "input", "role": "embedding", "rows": 601, "dim": 16, "bias_row": True},
                {"name": "hidden", "role": "dense", "rows": 24, "dim": 16},
                {
                    "name": "labels",
                    "role": "head",
                    "rows": 5000,
                    "dim": 24,
                    "optimizer": {"kind": "sgd", "learning_rate": 0.5},
                    "head": {"hash": {"codes_per_table": 5, "num_tables": 10}},
                },
            ],
        }
    )
    yield cluster.create_model(spec)
    cluster.drop_model(spec.name)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def free_port() -> int:
    """A loopback port that nobody listens on now.

    From below Linux's ports of outgoing connections, so that none takes it while no server has it.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 32_768)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def take_checkpoint(cluster: dslide.Client) -> Any:
    """A cluster checkpoint, once the one by schedule is not being taken."""
    while True:
        try:
            return cluster.save_cluster_checkpoint()
        except dslide.AbortedError:
            time.sleep(0.05)


def restore_checkpoint(cluster: dslide.Client, checkpoint_id: int) -> None:
    """Once none is being taken by schedule."""
    while True:
        try:
            cluster.restore_cluster_checkpoint(checkpoint_id)
            return
        except dslide.AbortedError:
            time.sleep(0.05)
