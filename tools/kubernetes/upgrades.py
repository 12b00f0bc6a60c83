"""Everything of a release is replaced while a job trains, which has its epochs in the end, each
once, without a failed trainer and as good as one that nobody disturbed."""

from __future__ import annotations

import pathlib

from certificates import SERVERS, Certificates
from cluster import Cluster, ClusterError, wait_until
from examiner import Examiner
from images import NEXT_TAG
from lasting_training import FAST, SLOWLY, Training
from release import RELEASE, Release
from steps import Steps

EPOCHS = 40
VALUES = pathlib.Path(__file__).with_name("upgrades.yaml")


def _coordinator_node(release: Release) -> str:
    node: str = release.get_one("pod", f"{RELEASE}-coordinator-0")["spec"]["nodeName"]
    return node


class _Upgrades:
    """Each with all that those before it have set."""

    def __init__(self, release: Release, steps: Steps, training: Training) -> None:
        self._release = release
        self._steps = steps
        self._training = training
        self._settings = [*training.settings, SLOWLY]

    def __call__(self, name: str, *settings: str) -> None:
        self._settings += settings
        self._steps(f"upgrade: {name}", lambda: self._release.apply("upgrade", *self._settings))
        self._steps(f"{name}: trains on", self._training.wait_for_progress)


def _rotate(release: Release, certificates: Certificates) -> None:
    """Other certificates, until every server shows its own."""
    certificates.renew()
    certificates.bring(release)
    for server in SERVERS:
        wait_until(lambda: certificates.is_shown(server), f"{server.host} shows its certificate")


def upgrades(cluster: Cluster, dslide: pathlib.Path, steps: Steps) -> None:
    certificates = Certificates(cluster, dslide)
    release = Release(cluster, dslide, [VALUES], certificates.login())
    certificates.bring(release)
    undisturbed = Training(release, "undisturbed", EPOCHS)
    steps("install", lambda: release.apply("install", *undisturbed.settings, FAST))
    steps("train undisturbed", undisturbed.end)
    disturbed = Training(release, "disturbed", EPOCHS)
    upgrade = _Upgrades(release, steps, disturbed)
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
    steps("rotation: trains on", disturbed.wait_for_progress)
    steps("rollback", lambda: release.rollback(2))
    steps("rollback: trains on", disturbed.wait_for_progress)
    steps("faster trainers",
          lambda: release.apply("upgrade", *disturbed.settings, FAST))
    steps("train to the end", disturbed.end)
    Examiner(cluster, dslide, release).compare(disturbed.name, undisturbed.name)
    if failed := watch.failed():
        raise ClusterError(f"trainer pods failed: {failed}")
    steps("helm test", release.test)
    steps("uninstall", release.remove)
