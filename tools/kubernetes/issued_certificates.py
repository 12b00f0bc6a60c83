"""Certificates of the release that cert-manager has issued into its Secrets."""

from __future__ import annotations

import base64

from certificates import ROLES, CertificateFolder
from cluster import Cluster
from release import RELEASE, Release


class IssuedCertificates(CertificateFolder):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, "issued-certificates")
        self._folder.mkdir(exist_ok=True)

    def fetch(self, release: Release) -> None:
        """Those that are in the Secrets now."""
        for role in ROLES:
            secret = release.get_one("secret", f"{RELEASE}-{role}-tls")["data"]
            for file, key in (("ca.crt", "ca.crt"), (f"{role}.crt", "tls.crt"),
                              (f"{role}.key", "tls.key")):
                (self._folder / file).write_bytes(base64.b64decode(secret[key]))
