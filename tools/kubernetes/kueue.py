"""Kueue suspends and resumes a training, each time because a job that is more important wants its
place, and once lets it go on with fewer trainers; no epoch and no chunk of it is lost or trained
twice."""

from __future__ import annotations

import pathlib
import re
import sys

from cluster import Cluster, ClusterError, wait_until
from lasting_training import FAST, SLOWLY, Training
from late_objects import apply_when_possible
from release import NAMESPACE, RELEASE, Release
from steps import Steps
from trainers import Trainers

EPOCHS = 20
SUSPENSIONS = 3
_FOLDER = pathlib.Path(__file__).parent
VALUES = _FOLDER / "queued.yaml"
QUEUES = _FOLDER / "kueue.yaml"
IMPORTANT = _FOLDER / "important_job.yaml"
# What the important job asks for: all of the queue, or what leaves room for one trainer.
ALL, ALL_BUT_ONE = "cpu: 500m", "cpu: 490m"
NAMESPACE_OF_KUEUE = "kueue-system"
COORDINATOR_PAGE = (f"/api/v1/namespaces/{NAMESPACE}/pods/http:{RELEASE}-coordinator-0:7001"
                    "/proxy/metrics")


def install(cluster: Cluster, charts: pathlib.Path) -> None:
    cluster.helm(
        "install", "kueue", charts / "kueue", "--namespace", NAMESPACE_OF_KUEUE,
        "--create-namespace", "--wait", "--timeout", "6m",
        "--set", "controllerManager.manager.image.pullPolicy=IfNotPresent",
        "--set", "controllerManager.manager.resources.requests.cpu=50m")
    apply_when_possible(cluster, QUEUES)


def _important(cluster: Cluster, command: str, wants: str = ALL) -> None:
    """command: apply or delete."""
    job = IMPORTANT.read_text(encoding="utf-8").replace(ALL, wants)
    cluster.kubectl(command, "-f", "-", text=job, within=120)


def trained_chunks(cluster: Cluster) -> int:
    """By the coordinator's count since it was started."""
    page = cluster.kubectl("get", "--raw", COORDINATOR_PAGE)
    found = re.search(r"^dslide_coordinator_chunks_done_total (\d+)$", page, re.MULTILINE)
    if not found:
        raise ClusterError("the coordinator does not count its chunks")
    return int(found.group(1))


def check_chunks(chunks: int) -> None:
    print(f"   {chunks} chunks in {EPOCHS} epochs", file=sys.stderr)
    if not chunks or chunks % EPOCHS:
        raise ClusterError(f"{chunks} chunks were trained, not as many in each of {EPOCHS} epochs")


def _suspend_once(cluster: Cluster, training: Training, trainers: Trainers, steps: Steps,
                  number: int) -> None:
    training.wait_for_progress()
    _important(cluster, "apply")
    steps(f"kueue: suspension {number}", lambda: wait_until(
        trainers.are_suspended, "the trainers make room for a job that is more important"))
    print(f"   {training.samples()} samples when suspended", file=sys.stderr)
    _important(cluster, "delete")
    steps(f"kueue: resumption {number}", lambda: wait_until(
        trainers.are_back, "the trainers are back"))
    training.wait_for_progress()


def _admit_one(cluster: Cluster, training: Training, trainers: Trainers, steps: Steps) -> None:
    training.wait_for_progress()
    _important(cluster, "apply", ALL_BUT_ONE)
    steps("kueue: one of two trainers", lambda: wait_until(
        lambda: trainers.ready() == 1, "one trainer goes on beside what is more important"))
    training.wait_for_progress()
    _important(cluster, "delete")


def live_with_kueue(cluster: Cluster, dslide: pathlib.Path, charts: pathlib.Path,
                    steps: Steps) -> None:
    release = Release(cluster, dslide, [VALUES], ["--insecure"])
    training, trainers = Training(release, "queued", EPOCHS), Trainers(release)
    steps("kueue: its own install", lambda: install(cluster, charts))
    watch = release.watch_trainers()
    steps("kueue: install", lambda: release.apply("install", *training.settings, SLOWLY))
    for number in range(1, SUSPENSIONS + 1):
        _suspend_once(cluster, training, trainers, steps, number)
    _admit_one(cluster, training, trainers, steps)
    steps("kueue: faster trainers", lambda: release.apply("upgrade", *training.settings, FAST))
    steps("kueue: train to the end", training.end)
    check_chunks(trained_chunks(cluster))
    if failed := watch.failed():
        raise ClusterError(f"trainer pods failed: {failed}")
    steps("kueue: uninstall", release.remove)
