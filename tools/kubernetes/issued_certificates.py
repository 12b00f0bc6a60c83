"""Certificates of the release that cert-manager has issued into its Secrets."""

from __future__ import annotations

import base64

from certificates import ROLES, CertificateFolder
from cluster import Cluster
from release import RELEASE, Release


def _secret(role: str) -> str:
    return f"{RELEASE}-{role}-tls"


class IssuedCertificates(CertificateFolder):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, "issued-certificates")
        self._folder.mkdir(exist_ok=True)

    def fetch(self, release: Release) -> None:
        """Those that are in the Secrets now."""
        for role in ROLES:
            secret = release.get_one("secret", _secret(role))["data"]
            for file, key in (("ca.crt", "ca.crt"), (f"{role}.crt", "tls.crt"),
                              (f"{role}.key", "tls.key")):
                (self._folder / file).write_bytes(base64.b64decode(secret[key]))

    def forget(self, release: Release) -> None:
        """When the release is gone, whose Secrets stay: cert-manager gives what is in them to the
        next one for as long as it is valid."""
        release.kubectl("delete", "secret", *map(_secret, ROLES))
