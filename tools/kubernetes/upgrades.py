"""Everything of a release is replaced while a job trains, which has its epochs in the end, each
once, without a failed trainer and as good as one that nobody disturbed."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
from typing import Any

from certificates import SERVERS, Certificates
from cluster import Cluster, ClusterError, wait_until
from images import NEXT_TAG
from release import RELEASE, Release
from steps import Steps, check_job

UNDISTURBED, DISTURBED = "undisturbed", "disturbed"
EPOCHS = 40
TEST_POINTS = 2000
MOST_LOST = 0.01  # of P@1
VALUES = pathlib.Path(__file__).with_name("upgrades.yaml")


def _job(name: str) -> list[str]:
    """Settings of a training of that name, of a model of its own."""
    return [f"trainer.job={name}",
            f"trainer.extraArgs={{--name={name},--dim=32,--epochs={EPOCHS},"
            "--batch-size=64,--seed=1}"]


def _coordinator_node(release: Release) -> str:
    node: str = release.get_one("pod", f"{RELEASE}-coordinator-0")["spec"]["nodeName"]
    return node


class _Upgrades:
    """Each with all that those before it have set."""

    def __init__(self, release: Release, steps: Steps, settings: list[str]) -> None:
        self._release = release
        self._steps = steps
        self._settings = settings

    def __call__(self, name: str, *settings: str) -> None:
        self._settings += settings
        self._steps(f"upgrade: {name}", lambda: self._release.apply("upgrade", *self._settings))
        still_trains(self._release)


def still_trains(release: Release) -> None:
    """An error when there was nothing left to disturb."""
    found: list[Any] = []

    def known() -> bool:
        with contextlib.suppress(ClusterError):
            found.append(release.job(DISTURBED))
        return bool(found)

    wait_until(known, "the coordinator tells of the job")
    job = found[0]
    if job["finished"]:
        raise ClusterError(f"the training was over too early, after {EPOCHS} epochs: {job}")
    print(f"   epoch {job['epoch'] + 1} of {EPOCHS}, {job['trainers']} trainers", file=sys.stderr)


def _rotate(release: Release, certificates: Certificates) -> None:
    """Other certificates, until every server shows its own."""
    certificates.renew()
    certificates.bring(release)
    for server in SERVERS:
        wait_until(lambda: certificates.is_shown(server), f"{server.host} shows its certificate")


class _Examiner:
    """Asks for the accuracy of a model of the cluster on points that no trainer has seen."""

    def __init__(self, cluster: Cluster, dslide: pathlib.Path, release: Release) -> None:
        self._release = release
        self._points = cluster.work / "test.txt"
        # As those of values.yaml, but more.
        subprocess.run([dslide, "data", "gen", f"--output={self._points}",
                        f"--points={TEST_POINTS}", "--first-point=4000", "--features=2000",
                        "--labels=1000"], check=True, capture_output=True, timeout=60)

    def precision(self, model: str) -> float:
        answer = self._release.ask("eval", "--name", model, "--data", self._points)
        return float(answer["p_at_1"])


def upgrades(cluster: Cluster, dslide: pathlib.Path, steps: Steps) -> None:
    certificates = Certificates(cluster, dslide)
    release = Release(cluster, dslide, [VALUES], certificates.login())
    certificates.bring(release)
    steps("install", lambda: release.apply("install", *_job(UNDISTURBED)))
    steps("train undisturbed", release.wait_for_training)
    check_job(release.job(UNDISTURBED), EPOCHS)
    examiner = _Examiner(cluster, dslide, release)
    upgrade = _Upgrades(release, steps, _job(DISTURBED))
    watch = release.watch_trainers()
    upgrade("another job")
    upgrade("another image", f"image.tag={NEXT_TAG}")
    upgrade("more memory for shards", "shard.resources.requests.memory=640Mi",
            "shard.resources.limits.memory=640Mi")
    upgrade("3 trainers instead of 2", "trainer.replicaCount=3")
    there = _coordinator_node(release)
    elsewhere = next(node for node in cluster.nodes() if node != there)
    upgrade(f"coordinator from {there} to {elsewhere}",
            f"coordinator.nodeSelector.kubernetes\\.io/hostname={elsewhere}")
    if _coordinator_node(release) != elsewhere:
        raise ClusterError(f"the coordinator is not on {elsewhere}")
    steps("rotation of certificates", lambda: _rotate(release, certificates))
    still_trains(release)
    steps("rollback", lambda: release.rollback(2))
    steps("train to the end", release.wait_for_training)
    check_job(release.job(DISTURBED), EPOCHS)
    failed = watch.failed()
    if failed:
        raise ClusterError(f"trainer pods failed: {failed}")
    before, after = examiner.precision(UNDISTURBED), examiner.precision(DISTURBED)
    print(f"   P@1 {after:.4f}, undisturbed {before:.4f}", file=sys.stderr)
    if before - after > MOST_LOST:
        raise ClusterError(f"P@1 is {before - after:.4f} below that of the undisturbed training")
    steps("helm test", release.test)
    steps("uninstall", release.remove)
