"""A shard that was never interrupted, for comparison with one that was.

The shard's command log is copied, its newer images are taken away, and one process applies all
commands since the oldest image that is kept: since the beginning, unless the log grew so much that
images were written. Afterwards it must hold what the shard holds, bit for bit: for equal rows,
optimizer states and counts of updates the digests are equal.

The shard must not run while it is copied, and nobody may change its rows between digests_of() and
its end.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import time
from collections.abc import Mapping, Sequence

import processes
import shard_client
from grpc_client import Connection
from processes import Process

_RESTORED = r" state restored .*image=(\d+) .*replayed=(\d+) .*digest=(\w+)"
_STILL_SECONDS = 1


Digests = dict[str, tuple[int, str]]  # {"model/table": (applied updates, digest)}


@dataclasses.dataclass(frozen=True)
class Restored:
    """What a start has found: the image that it began with, the commands that it applied since
    then, and a digest of everything."""

    image: int
    replayed: int
    digest: str


def digests_of(address: str, models: Sequence[str]) -> Digests:
    """{"model/table": (applied updates, digest)} of a shard."""
    found = {}
    with Connection(address) as connection:
        for model in models:
            for name, table in shard_client.describe_model(connection, model).items():
                found[f"{model}/{name}"] = (table.applied_steps, f"{table.digest:016x}")
    return found


def settled_digests_of(address: str, models: Sequence[str]) -> Digests:
    """The same, as soon as they do not change any more: what had arrived is applied."""
    seen = [digests_of(address, models)]

    def still() -> Digests | None:
        time.sleep(_STILL_SECONDS)
        seen.append(digests_of(address, models))
        return seen[-1] if seen[-1] == seen[-2] else None

    return processes.wait_until(still, lambda: f"no more updates at {address}")


def restored(process: Process) -> Restored:
    """What a shard that was started on a command log says of it."""
    image, replayed, digest = process.wait_for_stderr(_RESTORED).groups()
    return Restored(int(image), int(replayed), digest)


def copy_log(data_dir: pathlib.Path, copy: pathlib.Path) -> None:
    """The command log of a shard that does not run, without images but the oldest that counts."""
    log = copy / "command_log"
    shutil.copytree(data_dir / "command_log", log)
    # By root, then by record: the log leads from the oldest image of the last root to its end.
    images = sorted((log / "images").glob("log-*"))
    root = images[-1].name.split("-")[1]
    oldest = next(image for image in images if image.name.split("-")[1] == root)
    for image in images:
        if image != oldest:
            shutil.rmtree(image)


def replay(copy: pathlib.Path, directory: pathlib.Path,
           models: Sequence[str]) -> tuple[Digests, Restored]:
    """(digests_of() a process that applied a copied log from its beginning, Restored)."""
    directory.mkdir(parents=True, exist_ok=True)
    with processes.Programs(directory) as programs:
        shard = programs.start_lone_shard("--threads", 2, "--data-dir", copy, "--durability", "log",
                                          "--disk-reserve", 0)
        shard.process.wait_for_stderr(" shard ready ")
        return digests_of(shard.address, models), restored(shard.process)


def differing(live: Mapping[str, object], twin: Mapping[str, object]) -> list[str]:
    """Lines: what is not the same."""
    return [f"{name}: (updates, digest) {live.get(name)}, and {twin.get(name)} in the twin"
            for name in sorted(live.keys() | twin.keys()) if live.get(name) != twin.get(name)]
