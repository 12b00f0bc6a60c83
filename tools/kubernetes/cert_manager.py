"""cert-manager issues the certificates of a release, and renews them while a job trains."""

from __future__ import annotations

import pathlib

from certificates import ROLES, SERVERS
from cluster import Cluster, ClusterError, wait_until
from issued_certificates import IssuedCertificates
from late_objects import apply_when_possible
from release import Release
from steps import Steps, check_job
from trainers import Trainers

JOB, EPOCHS = "issued", 20
# cert-manager issues none of less than an hour: of these the second is due after a minute.
SHORT = ("tls.certManager.duration=1h", "tls.certManager.renewBefore=59m")
TRAINING = (f"trainer.job={JOB}",
            f"trainer.extraArgs={{--name={JOB},--dim=32,--epochs={EPOCHS},--patience=0,"
            "--batch-size=64,--seed=1}")
FASTER = "trainer.resources.limits.cpu=2"
_FOLDER = pathlib.Path(__file__).parent
VALUES = _FOLDER / "issued.yaml"
ISSUERS = _FOLDER / "issuers.yaml"


def install(cluster: Cluster, charts: pathlib.Path) -> None:
    cluster.helm("install", "cert-manager", charts / "cert-manager", "--namespace",
                 "cert-manager", "--create-namespace", "--wait", "--timeout", "6m", "--set",
                 "crds.enabled=true,startupapicheck.enabled=false")


class _Renewal:
    """From its making on."""

    def __init__(self, release: Release, certificates: IssuedCertificates) -> None:
        self._release = release
        self._certificates = certificates
        self._first = self._serials()

    def _serials(self) -> dict[str, str]:
        self._certificates.fetch(self._release)
        return {role: self._certificates.own_serial(role) for role in ROLES}

    def is_issued(self) -> bool:
        """Every role has another certificate."""
        return all(serial != self._first[role] for role, serial in self._serials().items())

    def is_shown(self) -> bool:
        """Every server shows its newest."""
        self._certificates.fetch(self._release)
        return all(self._certificates.is_shown(server) for server in SERVERS)


def live_with_cert_manager(cluster: Cluster, dslide: pathlib.Path, charts: pathlib.Path,
                           steps: Steps) -> None:
    certificates = IssuedCertificates(cluster)
    release = Release(cluster, dslide, [VALUES], certificates.login())
    steps("cert-manager: its own install", lambda: install(cluster, charts))
    steps("cert-manager: issuers", lambda: apply_when_possible(cluster, ISSUERS))
    watch = release.watch_trainers()
    steps("cert-manager: install", lambda: release.apply("install", *SHORT, *TRAINING))
    renewal = _Renewal(release, certificates)
    trainers = Trainers(release, JOB)
    trainers.wait_for_progress()
    steps("cert-manager: renewal", lambda: wait_until(
        renewal.is_issued, "every role has another certificate"))
    steps("cert-manager: renewal is picked up", lambda: wait_until(
        renewal.is_shown, "every server shows its newest certificate"))
    trainers.wait_for_progress()
    steps("cert-manager: faster trainers",
          lambda: release.apply("upgrade", *SHORT, *TRAINING, FASTER))
    steps("cert-manager: train to the end", release.wait_for_training)
    certificates.fetch(release)
    check_job(release.job(JOB), EPOCHS)
    if failed := watch.failed():
        raise ClusterError(f"trainer pods failed: {failed}")
    steps("cert-manager: helm test", release.test)
    steps("cert-manager: uninstall", release.remove)
