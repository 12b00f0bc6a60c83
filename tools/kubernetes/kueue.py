"""Kueue suspends and resumes a training, each time because a job that is more important wants its
place; no epoch and no chunk of it is lost or trained twice."""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

from cluster import Cluster, ClusterError, wait_until
from release import NAMESPACE, RELEASE, Release
from steps import Steps, check_job

JOB, EPOCHS = "queued", 20  # as in queued.yaml
SUSPENSIONS = 3
FASTER = "trainer.resources.limits.cpu=2"
_FOLDER = pathlib.Path(__file__).parent
VALUES = _FOLDER / "queued.yaml"
QUEUES = _FOLDER / "kueue.yaml"
IMPORTANT = _FOLDER / "important_job.yaml"
NAMESPACE_OF_KUEUE = "kueue-system"
COORDINATOR_PAGE = (f"/api/v1/namespaces/{NAMESPACE}/pods/http:{RELEASE}-coordinator-0:7001"
                    "/proxy/metrics")


def install(cluster: Cluster, charts: pathlib.Path) -> None:
    cluster.helm(
        "install", "kueue", charts / "kueue", "--namespace", NAMESPACE_OF_KUEUE,
        "--create-namespace", "--wait", "--timeout", "6m",
        "--set", "controllerManager.manager.image.pullPolicy=IfNotPresent",
        "--set", "controllerManager.manager.resources.requests.cpu=50m")

    def is_accepted() -> bool:
        # Its webhooks answer when their certificates are there.
        try:
            cluster.kubectl("apply", "-f", QUEUES)
        except ClusterError:
            return False
        return True

    wait_until(is_accepted, "Kueue accepts its queues")


def _important(cluster: Cluster, command: str, *flags: str) -> None:
    cluster.kubectl(command, "-f", IMPORTANT, *flags, within=120)


class _Trainers:
    """The Job of the release, and what its training has done."""

    def __init__(self, release: Release) -> None:
        self._release = release

    def _job(self) -> Any:
        jobs = self._release.get("jobs", "-l", "app.kubernetes.io/component=trainer")
        if len(jobs) != 1:
            raise ClusterError(f"{len(jobs)} Jobs of trainers, not one")
        if any(condition["type"] == "Complete" for condition in jobs[0]["status"].get(
                "conditions", [])):
            raise ClusterError(f"the training was over too early, before its {EPOCHS} epochs"
                               f" could be suspended {SUSPENSIONS} times")
        return jobs[0]

    def are_gone(self) -> bool:
        """Suspended, without a pod."""
        job = self._job()
        pods = self._release.get("pods", "-l", "app.kubernetes.io/component=trainer",
                                 "--field-selector=status.phase=Running")
        return bool(job["spec"].get("suspend")) and not job["status"].get("active") and not pods

    def are_back(self) -> bool:
        job = self._job()
        return not job["spec"].get("suspend") and bool(
            job["status"].get("ready", 0) == job["spec"]["parallelism"])

    def samples(self) -> int:
        """That are trained, over all epochs."""
        found = [job for job in self._release.ask("job", "list")["jobs"] if job["job"] == JOB]
        return sum(int(job["epoch"] * job["samples_per_epoch"] + job["samples_done"])
                   for job in found)


def _trained_chunks(cluster: Cluster) -> int:
    """By the coordinator's count since it was started."""
    page = cluster.kubectl("get", "--raw", COORDINATOR_PAGE)
    found = re.search(r"^dslide_coordinator_chunks_done_total (\d+)$", page, re.MULTILINE)
    if not found:
        raise ClusterError("the coordinator does not count its chunks")
    return int(found.group(1))


def _check_chunks(chunks: int) -> None:
    print(f"   {chunks} chunks in {EPOCHS} epochs", file=sys.stderr)
    if not chunks or chunks % EPOCHS:
        raise ClusterError(f"{chunks} chunks were trained, not as many in each of {EPOCHS} epochs")


def _suspend_once(cluster: Cluster, trainers: _Trainers, steps: Steps, number: int) -> None:
    before = trainers.samples()
    wait_until(lambda: trainers.samples() > before, "the trainers train")
    _important(cluster, "apply")
    steps(f"kueue: suspension {number}", lambda: wait_until(
        trainers.are_gone, "the trainers make room for a job that is more important"))
    before = trainers.samples()
    _important(cluster, "delete", "--wait")
    steps(f"kueue: resumption {number}", lambda: wait_until(
        trainers.are_back, "the trainers are back"))
    wait_until(lambda: trainers.samples() > before, "the trainers train on")
    print(f"   {before} samples when suspended", file=sys.stderr)


def live_with_kueue(cluster: Cluster, dslide: pathlib.Path, charts: pathlib.Path,
                    steps: Steps) -> None:
    release = Release(cluster, dslide, [VALUES], ["--insecure"])
    steps("kueue: its own install", lambda: install(cluster, charts))
    watch = release.watch_trainers()
    steps("kueue: install", lambda: release.apply("install"))
    trainers = _Trainers(release)
    for number in range(1, SUSPENSIONS + 1):
        _suspend_once(cluster, trainers, steps, number)
    steps("kueue: faster trainers", lambda: release.apply("upgrade", FASTER))
    steps("kueue: train to the end", release.wait_for_training)
    check_job(release.job(JOB), EPOCHS)
    _check_chunks(_trained_chunks(cluster))
    if failed := watch.failed():
        raise ClusterError(f"trainer pods failed: {failed}")
    steps("kueue: uninstall", release.remove)
