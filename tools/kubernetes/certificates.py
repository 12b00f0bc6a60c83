"""Certificates of the release, of an authority of `dslide certs`, in Secrets of its namespace."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess

from cluster import Cluster, ClusterError
from release import NAMESPACE, RELEASE, Release

ROLES = ("shard", "coordinator", "trainer", "operator")
SERVICES = {"coordinator": f"{RELEASE}-coordinator-headless.{NAMESPACE}.svc",
            "shard": f"{RELEASE}-shard-headless.{NAMESPACE}.svc"}
HOSTS = [f"{RELEASE}-coordinator.{NAMESPACE}.svc",
         *(f"*.{service}" for service in SERVICES.values())]


@dataclasses.dataclass(frozen=True)
class Server:
    role: str
    host: str
    port: int


SERVERS = [Server("coordinator", f"{RELEASE}-coordinator-0.{SERVICES['coordinator']}", 7000),
           *(Server("shard", f"{RELEASE}-shard-{number}.{SERVICES['shard']}", 7010)
             for number in range(2))]


class CertificateFolder:
    """ca.crt, and ROLE.crt and ROLE.key of each role."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._folder = cluster.work / name

    def login(self) -> list[str]:
        """Flags of dslide for an operator."""
        return [f"--tls-ca={self._folder / 'ca.crt'}",
                f"--tls-cert={self._folder / 'operator.crt'}",
                f"--tls-key={self._folder / 'operator.key'}"]

    def own_serial(self, role: str) -> str:
        return self._cluster.resolving("openssl", "x509", "-noout", "-serial", "-in",
                                       self._folder / f"{role}.crt")

    def is_shown(self, server: Server) -> bool:
        """Whether who connects is shown the role's newest certificate."""
        shown = (f"openssl s_client -connect {server.host}:{server.port} -alpn h2 </dev/null"
                 " 2>/dev/null | openssl x509 -noout -serial")
        try:
            return self._cluster.resolving("sh", "-c", shown) == self.own_serial(server.role)
        except ClusterError:
            return False


class Certificates(CertificateFolder):
    """Of an authority of their own."""

    def __init__(self, cluster: Cluster, dslide: pathlib.Path) -> None:
        super().__init__(cluster, "certificates")
        self._dslide = dslide
        self._make("dev", "--output", self._folder)

    def _make(self, command: str, *arguments: str | pathlib.Path) -> None:
        hosts = [word for host in HOSTS for word in ("--host", host)]
        subprocess.run([self._dslide, "certs", command, *arguments, *hosts], check=True,
                       capture_output=True, timeout=60)

    def renew(self) -> None:
        """All of them, by the same authority."""
        for role in ROLES:
            self._make("issue", "--from", self._folder, "--role", role, "--overwrite")

    def bring(self, release: Release) -> None:
        """Into the Secrets that upgrades.yaml names."""
        for role in ROLES:
            files = {"tls.crt": f"{role}.crt", "tls.key": f"{role}.key", "ca.crt": "ca.crt"}
            release.put_secret(f"{RELEASE}-{role}-tls", {
                name: self._folder / file for name, file in files.items()})
