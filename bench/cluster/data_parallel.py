"""PyTorch DistributedDataParallel over the links of a ShapedNetwork."""

import dataclasses
import json
import pathlib
from typing import Any

import measurement
import programs
from shaped_cluster import SHARDS, shard_host
from shaped_network import ShapedNetwork

WORKERS = SHARDS  # on the shards' hosts
_PORT = 7030
_WORKER = pathlib.Path(__file__).resolve().parent / "ddp_worker.py"
# Start of the workers, their data and their evaluations, none of which counts.
_ASIDE_SECONDS = 1800


@dataclasses.dataclass(frozen=True)
class Settings:
    """What ddp_worker.py reads. A step's batch is dealt to the workers."""

    train: str
    test: str
    hidden: int
    hidden_dropout: float
    head_scale: float  # standard deviation of the first weights of the output layer
    learning_rate: float  # of Adam
    batch: int
    seed: int
    steps: int  # at most
    evaluate_every: int  # steps; 0: never
    limit_seconds: float  # of training; looked at when it evaluates
    workers: int = WORKERS

    @staticmethod
    def of_spec(spec: dict, train: pathlib.Path, **others: Any) -> "Settings":
        """Those that a model spec of one hidden layer with Adam gives."""
        embedding, head = spec["tables"]
        width = embedding["dim"]
        return Settings(
            train=str(train),
            hidden=width,
            hidden_dropout=spec["training"].get("hidden_dropout", 0.0),
            head_scale=head.get("init", {}).get("scale") or width**-0.5,
            learning_rate=head["optimizer"]["learning_rate"],
            batch=spec["training"]["batch_size"],
            seed=spec["seed"],
            **others,
        )


def train(
    started: programs.Programs, network: ShapedNetwork, python: pathlib.Path, settings: Settings
) -> dict:
    """Figures of the steps; "curve": [[seconds of training, P@1], ...]."""
    folder = started.directory / "data-parallel"
    folder.mkdir(exist_ok=True)
    file = folder / "settings.json"
    address = f"{network.address(shard_host(0))}:{_PORT}"
    file.write_text(json.dumps(dataclasses.asdict(settings) | {"address": address}))
    threads = max(1, len(programs.processes.os.sched_getaffinity(0)) // WORKERS)
    workers = [
        started.start(
            str(python),
            _WORKER,
            file,
            rank,
            wrapper=[
                *network.inside(shard_host(rank)),
                *["env", f"OMP_NUM_THREADS={threads}", "GLOO_SOCKET_IFNAME=eth0"],
            ],
        )
        for rank in range(WORKERS)
    ]
    report = programs.finish_json(workers[0], settings.limit_seconds + _ASIDE_SECONDS)
    for worker in workers[1:]:
        worker.finish()
        worker.kill()
    # The first step also brings memory in.
    steady = report.pop("step_seconds")[1:]
    return report | {
        "steps": len(steady),
        "step_seconds": measurement.median(steady),
        "spread": measurement.spread(steady),
        "samples_per_second": settings.batch / measurement.median(steady),
        "bytes_per_sample_and_worker": report["interface_bytes"] / report["samples"],
    }
