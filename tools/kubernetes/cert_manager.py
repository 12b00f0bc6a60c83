"""cert-manager issues the certificates of a release, and renews them while a job trains."""

from __future__ import annotations

import pathlib

from certificates import ROLES, SERVERS
from cluster import Cluster, ClusterError, wait_until
from issued_certificates import IssuedCertificates
from lasting_training import FAST, SLOWLY, Training
from late_objects import apply_when_possible
from operator_images import CERT_MANAGER_TAG
from release import Release, create_namespace
from steps import Steps

EPOCHS = 20
# cert-manager issues none of less than an hour: of these the second is due after a minute.
SHORT = ("tls.certManager.duration=1h", "tls.certManager.renewBefore=59m")
_FOLDER = pathlib.Path(__file__).parent
VALUES = _FOLDER / "issued.yaml"
ISSUERS = _FOLDER / "issuers.yaml"


def _install(cluster: Cluster, charts: pathlib.Path) -> None:
    # A chart that was not released names no version.
    tags = [f"{part}image.tag={CERT_MANAGER_TAG}" for part in ("", "webhook.", "cainjector.")]
    cluster.helm("install", "cert-manager", charts / "cert-manager", "--namespace",
                 "cert-manager", "--create-namespace", "--wait", "--timeout", "6m", "--set",
                 ",".join(["crds.enabled=true,startupapicheck.enabled=false", *tags]))


def provide_issuers(cluster: Cluster, charts: pathlib.Path, steps: Steps) -> None:
    """cert-manager, and issuers for releases whose values are VALUES."""
    steps("cert-manager: its own install", lambda: _install(cluster, charts))
    create_namespace(cluster)
    steps("cert-manager: issuers", lambda: apply_when_possible(cluster, ISSUERS))


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


def live_with_cert_manager(cluster: Cluster, dslide: pathlib.Path, steps: Steps) -> None:
    """Where provide_issuers() has been."""
    certificates = IssuedCertificates(cluster)
    release = Release(cluster, dslide, [VALUES], certificates.login())
    watch = release.watch_trainers()
    training = Training(release, "issued", EPOCHS)
    settings = (*SHORT, *training.settings)
    steps("cert-manager: install", lambda: release.apply("install", *settings, SLOWLY))
    renewal = _Renewal(release, certificates)
    training.wait_for_progress()
    steps("cert-manager: renewal", lambda: wait_until(
        renewal.is_issued, "every role has another certificate"))
    steps("cert-manager: renewal is picked up", lambda: wait_until(
        renewal.is_shown, "every server shows its newest certificate"))
    training.wait_for_progress()
    steps("cert-manager: faster trainers", lambda: release.apply("upgrade", *settings, FAST))
    # Renewed each minute: the login that is asked with must be one that has not ended.
    certificates.fetch(release)
    steps("cert-manager: train to the end", training.end)
    if failed := watch.failed():
        raise ClusterError(f"trainer pods failed: {failed}")
    steps("cert-manager: helm test", release.test)
    steps("cert-manager: uninstall", release.remove)
    certificates.forget(release)
