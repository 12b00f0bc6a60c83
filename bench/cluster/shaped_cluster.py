"""A coordinator and shards on the hosts of a ShapedNetwork, and trainings on them."""

import pathlib
from collections.abc import Sequence

import programs
from shaped_network import ShapedNetwork

SHARDS = 2
TRAIN_SECONDS = 900
_COORDINATOR_PORT = 7000
_SHARD_PORT = 7010


def shard_host(shard: int) -> str:
    return f"shard{shard}"


class ShapedCluster:
    """A fresh cluster; it ends with `started`. The coordinator is on the trainer's host."""

    def __init__(self, started: programs.Programs, network: ShapedNetwork) -> None:
        self._started, self._network = started, network
        self._address = f"{network.address('trainer')}:{_COORDINATOR_PORT}"
        coordinator = started.start(
            "dslide-coordinator",
            *self._listen("trainer", _COORDINATOR_PORT),
            "--shards",
            SHARDS,
            wrapper=network.inside("trainer"),
        )
        coordinator.wait_for_stderr(r" address=(\S+)")
        for shard in range(SHARDS):
            process = started.start(
                "dslide-shard",
                "--coordinator",
                self._address,
                *self._listen(shard_host(shard), _SHARD_PORT),
                wrapper=network.inside(shard_host(shard)),
            )
            process.wait_for_stderr(r" shard ready ")

    def train(self, data: pathlib.Path, arguments: Sequence[object]) -> dict:
        """The report of `dslide train`, with its samples and the bytes that the kernel counted."""
        before = self._bytes()
        report = self._run("train", data, arguments)
        report["samples"] = report["samples_per_second"] * report["seconds"]
        report["bytes_per_sample_and_shard"] = (self._bytes() - before) / SHARDS / report["samples"]
        return report

    def precision(self, data: pathlib.Path, model_dir: pathlib.Path) -> float:
        """P@1 of the points of `data`."""
        return self._run("eval", data, ["--model-dir", model_dir])["p_at_1"]

    def _listen(self, host: str, port: int) -> list[str]:
        return ["--listen", f"{self._network.address(host)}:{port}", "--admin", "", "--insecure"]

    def _bytes(self) -> int:
        return sum(self._network.bytes(shard_host(shard)) for shard in range(SHARDS))

    def _run(self, command: str, data: pathlib.Path, arguments: Sequence[object]) -> dict:
        return self._started.run_json(
            "dslide",
            command,
            *["-q", "-o", "json", "--cluster", self._address, "--insecure", "--timeout", "300s"],
            "--data",
            data,
            *arguments,
            within=TRAIN_SECONDS,
            wrapper=self._network.inside("trainer"),
        )
