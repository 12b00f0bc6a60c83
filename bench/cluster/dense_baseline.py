"""Our dense baseline as data parallel would run it, made of two measurements in one run.

A step of two workers with half a batch each, at the same time on this machine, and a ring
all-reduce of the bytes of their gradients between two hosts of a ShapedNetwork.
"""

import dataclasses
import pathlib
import subprocess
import sys

import measurement
import programs
from data_parallel import WORKERS
from measurement import say
from programs import processes
from shaped_cluster import TRAIN_SECONDS, shard_host
from shaped_network import ShapedNetwork

_ALL_REDUCE_PORT = 7020
_RING = pathlib.Path(__file__).resolve().parent / "ring_all_reduce.py"


@dataclasses.dataclass(frozen=True)
class Sizes:
    batch: int  # of a step of all workers
    hidden: int
    steps: int  # timed
    all_reduces: int


def compute(bin_dir: pathlib.Path, train: pathlib.Path, sizes: Sizes) -> dict:
    """Workers that share the machine; the report of the slowest, for which the others would wait.

    Raises programs.Skipped in a build without a BLAS library.
    """
    with programs.Programs(bin_dir) as started:
        threads = max(1, len(processes.os.sched_getaffinity(0)) // WORKERS)
        say(f"Dense baseline: {WORKERS} workers at once, {threads} thread(s) each")
        flags = {
            "--data": train,
            "--batch": sizes.batch // WORKERS,
            "--hidden": sizes.hidden,
            "--threads": threads,
            "--steps": sizes.steps,
        }
        words = [word for pair in flags.items() for word in pair]
        workers = [
            started.start("dslide-bench", "dense", *words, "-o", "json") for _ in range(WORKERS)
        ]
        reports = [programs.finish_json(worker, TRAIN_SECONDS) for worker in workers]
    return max(reports, key=lambda report: report["step_seconds"])


def _all_reduce(network: ShapedNetwork, count: int, repeats: int) -> list[float]:
    """Seconds of all-reduces of `count` bytes between two shaped hosts."""
    say(f"Ring all-reduce of {count / 1e6:.0f} MB, {repeats} times")
    address = f"{network.address(shard_host(0))}:{_ALL_REDUCE_PORT}"

    def command(host: str, side: str) -> list[str]:
        numbers = ["--bytes", str(count), "--repeats", str(repeats)]
        return [*network.inside(host), sys.executable, str(_RING), side, address, *numbers]

    with subprocess.Popen(command(shard_host(0), "--listen")) as listener:
        try:
            done = subprocess.run(
                command(shard_host(1), "--connect"),
                capture_output=True,
                text=True,
                check=True,
                timeout=TRAIN_SECONDS,
            )
        except BaseException:
            listener.kill()
            raise
        listener.wait()
    return measurement.json.loads(done.stdout)["seconds"]


def exchange(network: ShapedNetwork, worker: dict, sizes: Sizes) -> dict:
    """The figures at the rate that the network has now; `worker`: what compute() returned."""
    seconds = _all_reduce(network, worker["gradient_bytes"], sizes.all_reduces)
    computing, communicating = worker["step_seconds"], measurement.median(seconds)
    return {
        "workers": WORKERS,
        "batch": sizes.batch,
        "compute_seconds": computing,
        "compute_spread": worker["spread"],
        "all_reduce_seconds": communicating,
        "all_reduce_spread": measurement.spread(seconds),
        "all_reduce_bytes": worker["gradient_bytes"],
        "samples_per_second": sizes.batch / (computing + communicating),
        # As if all communication were hidden behind computation, or the other way round.
        "samples_per_second_overlapped": sizes.batch / max(computing, communicating),
        "blas": worker["blas"],
    }


def bytes_per_sample(figures: dict) -> float:
    """Of a sample on a worker's link: the gradient once in each direction, each step."""
    return 2 * figures["all_reduce_bytes"] / figures["batch"]
