"""Steps of what is done in the cluster, each with its time, and what holds after a training."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from cluster import ClusterError


class Steps:
    """Prints each step with the seconds that it took, and keeps them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, do: Callable[[], object]) -> None:
        began = time.monotonic()
        do()
        self.note(name, time.monotonic() - began)

    def note(self, name: str, seconds: float) -> None:
        """What was measured otherwise."""
        self.seconds[name] = round(seconds, 1)
        print(f"   {name}: {self.seconds[name]} s", file=sys.stderr, flush=True)


def check_job(job: Any, epochs: int) -> None:
    if not job["finished"] or job["cancelled"]:
        raise ClusterError(f"the job has not ended well: {job}")
    if [result["epoch"] for result in job["epochs"]] != list(range(epochs)):
        raise ClusterError(f"the job has not its {epochs} epochs, each once: {job}")
