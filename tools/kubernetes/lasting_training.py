"""A training that lasts as long as something is done to its cluster, and then ends soon."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from cluster import ClusterError, wait_until
from release import TRAINING_PATIENCE, Release
from steps import check_job

_CPU = "trainer.resources.limits.cpu"
# Of few processors a second, a small training lasts on any machine; the result is the same.
SLOWLY, FAST = f"{_CPU}=10m", f"{_CPU}=2"


class Training:
    """A job of a release, with a model of its own, both called `name`. Of at most 64 epochs: the
    coordinator keeps no more points of a curve."""

    def __init__(self, release: Release, name: str, epochs: int) -> None:
        self._release = release
        self.name = name
        self.epochs = epochs
        # No early end: every epoch that was asked for is to be seen.
        flags = (f"--name={name}", "--dim=32", f"--epochs={epochs}", "--patience=0",
                 "--batch-size=64", "--seed=1")
        # Of the release whose trainers do this.
        self.settings = (f"trainer.job={name}", f"trainer.extraArgs={{{','.join(flags)}}}")

    def _known(self) -> Any:
        with contextlib.suppress(ClusterError):
            return self._release.job(self.name)
        return None

    def job(self) -> Any:
        """What the coordinator tells of it, once it answers."""
        found: list[Any] = []

        def told() -> bool:
            found.append(self._known())
            return found[-1] is not None

        wait_until(told, f"the coordinator tells of the job {self.name}")
        return found[-1]

    def samples(self) -> int | None:
        """That are trained, over all its epochs; None when the coordinator does not answer."""
        job = self._known()
        return job and int(job["epoch"] * job["samples_per_epoch"] + job["samples_done"])

    def wait_for_progress(self) -> int:
        """Until more samples are trained than when it was called; how many then. An error when the
        training was over."""
        before, now = self.samples() or 0, 0

        def trained() -> bool:
            nonlocal now
            now = self.samples() or 0
            return now > before

        self.check_goes_on()
        wait_until(trained, f"{self.name} trains on", TRAINING_PATIENCE)
        return now

    def check_goes_on(self) -> None:
        """An error when there was nothing left to disturb."""
        job = self.job()
        if job["finished"]:
            raise ClusterError(f"the training was over too early: {job}")
        print(f"   epoch {job['epoch'] + 1} of {self.epochs}, {job['trainers']} trainers",
              file=sys.stderr)

    def end(self) -> None:
        """Waits for the trainers. An error when an epoch is missing, or there twice."""
        self._release.wait_for_training()
        check_job(self.job(), self.epochs)
