"""Time and processor time of stretches of work, with those of the shards that serve it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import time
from collections.abc import Iterator


def processor_seconds() -> float:
    """Of this process and its living descendants."""
    processes = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                fields = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
                processes[int(folder.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    ticks, family = 0, [os.getpid()]
    while family:
        parent = family.pop()
        ticks += processes[parent][1] if parent in processes else 0
        family += [
            process for process, (its_parent, _) in processes.items() if its_parent == parent
        ]
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Meter:
    """The sums of its stretches."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    samples: int = 0
    steps: int = 0

    @contextlib.contextmanager
    def stretch(self, steps: int, batch: int) -> Iterator[None]:
        wall, cpu = time.perf_counter(), processor_seconds()
        yield
        self.seconds += time.perf_counter() - wall
        self.cpu_seconds += processor_seconds() - cpu
        self.steps += steps
        self.samples += steps * batch

    def figures(self) -> dict[str, float]:
        return {
            "steps": self.steps,
            "samples": self.samples,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "samples_per_second": self.samples / self.seconds,
            "cpu_seconds_per_thousand": 1000 * self.cpu_seconds / self.samples,
        }
