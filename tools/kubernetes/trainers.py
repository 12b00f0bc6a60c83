"""The trainers of a release, and what their training has done so far."""

from __future__ import annotations

from typing import Any

from cluster import ClusterError, wait_until
from release import Release

_PODS = ("-l", "app.kubernetes.io/component=trainer")


class Trainers:
    """`name`: of the job that they train."""

    def __init__(self, release: Release, name: str) -> None:
        self._release = release
        self._name = name

    def _job(self) -> Any:
        """The Job of Kubernetes."""
        jobs = self._release.get("jobs", *_PODS)
        if len(jobs) != 1:
            raise ClusterError(f"there are {len(jobs)} Jobs of trainers, not one")
        return jobs[0]

    def are_suspended(self) -> bool:
        """And none of their pods is left."""
        running = self._release.get("pods", *_PODS)
        return bool(self._job()["spec"].get("suspend")) and not running

    def are_back(self) -> bool:
        job = self._job()
        return not job["spec"].get("suspend") and bool(
            job["status"].get("ready", 0) == job["spec"]["parallelism"])

    def samples(self) -> int:
        """That are trained, over all epochs. An error when the training is over."""
        known = [job for job in self._release.ask("job", "list")["jobs"]
                 if job["job"] == self._name]
        if any(job["finished"] for job in known):
            raise ClusterError(f"the training was over too early: {known}")
        return sum(int(job["epoch"] * job["samples_per_epoch"] + job["samples_done"])
                   for job in known)

    def wait_for_progress(self) -> int:
        """Samples, more than when it was called."""
        before = self.samples()
        wait_until(lambda: self.samples() > before, f"{self._name} trains on")
        return self.samples()
