"""The trainers of a release, as Kubernetes sees them."""

from __future__ import annotations

from typing import Any

from cluster import ClusterError
from release import Release

_PODS = ("-l", "app.kubernetes.io/component=trainer")


class Trainers:
    """Of one Job."""

    def __init__(self, release: Release) -> None:
        self._release = release

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
        """As many as were asked for."""
        return self.ready() == int(self._job()["spec"]["completions"])

    def ready(self) -> int:
        """0 while the Job is suspended, or some of those that it may have are not ready."""
        job = self._job()
        ready = int(job["status"].get("ready", 0))
        all_are = not job["spec"].get("suspend") and ready == job["spec"]["parallelism"]
        return ready if all_are else 0
