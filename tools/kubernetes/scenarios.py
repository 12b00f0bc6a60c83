"""What is done in the cluster, step by step, each with its time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from cluster import ClusterError, wait_until
from release import Release

EPOCHS = 12


class Steps:
    """Prints each step with the seconds that it took, and keeps them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, do: Callable[[], object]) -> None:
        began = time.monotonic()
        do()
        self.seconds[name] = round(time.monotonic() - began, 1)
        print(f"   {name}: {self.seconds[name]} s", file=sys.stderr, flush=True)


def smoke(release: Release, steps: Steps) -> None:
    """Install, train, test, uninstall."""
    steps("install", lambda: release.apply("install"))
    steps("train", release.wait_for_training)
    job = release.job()
    if job is None or not job["finished"] or len(job["epochs"]) != 4:
        raise ClusterError(f"the job has not its 4 epochs: {job}")
    steps("helm test", release.test)
    steps("uninstall", release.remove)


def _wait_for_epoch(release: Release, epoch: int) -> None:
    def reached() -> bool:
        job = release.job()
        if job is not None and job["finished"]:
            raise ClusterError(f"the training was over before its epoch {epoch}: {job}")
        return job is not None and job["epoch"] >= epoch

    wait_until(reached, f"the job is in its epoch {epoch}")


def _check_job(job: Any) -> None:
    if not job["finished"] or job["cancelled"]:
        raise ClusterError(f"the job has not ended well: {job}")
    if [result["epoch"] for result in job["epochs"]] != list(range(EPOCHS)):
        raise ClusterError(f"the job has not its {EPOCHS} epochs, each once: {job}")


def upgrades(release: Release, steps: Steps) -> None:
    """A job trains while every part of the release is replaced under it."""
    lasting = (f"trainer.extraArgs={{--dim=32,--epochs={EPOCHS},--batch-size=16}}",)
    steps("install", lambda: release.apply("install", *lasting))
    _wait_for_epoch(release, 1)
    steps("upgrade that rolls the coordinator", lambda: release.apply(
        "upgrade", *lasting, "coordinator.podAnnotations.rolled=1"))
    _wait_for_epoch(release, 3)
    steps("upgrade that rolls the shards", lambda: release.apply(
        "upgrade", *lasting, "coordinator.podAnnotations.rolled=1",
        "shard.podAnnotations.rolled=1"))
    _wait_for_epoch(release, 5)
    steps("coordinator killed", lambda: release.kubectl(
        "delete", "pod", "dslide-coordinator-0", "--grace-period=0", "--force"))
    _wait_for_epoch(release, 7)
    steps("shard killed", lambda: release.kubectl(
        "delete", "pod", "dslide-shard-1", "--grace-period=0", "--force"))
    _wait_for_epoch(release, 9)
    steps("rollback", lambda: release.apply("upgrade", *lasting))
    steps("train to the end", release.wait_for_training)
    _check_job(release.job())
    failed = [pod["metadata"]["name"] for pod in release.trainer_pods()
              if pod["status"]["phase"] == "Failed"]
    if failed:
        raise ClusterError(f"trainer pods failed: {failed}")
    steps("helm test", release.test)
    steps("uninstall", release.remove)
