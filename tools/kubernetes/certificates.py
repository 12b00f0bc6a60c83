"""Certificates of the release, of an authority of `dslide certs`, in Secrets of its namespace."""

from __future__ import annotations

import pathlib
import subprocess

from release import NAMESPACE, RELEASE

ROLES = ("shard", "coordinator", "trainer", "operator")
HOSTS = (f"{RELEASE}-coordinator.{NAMESPACE}.svc", f"*.{RELEASE}-coordinator-headless.{NAMESPACE}.svc",
         f"*.{RELEASE}-shard-headless.{NAMESPACE}.svc")


class Certificates:
    def __init__(self, dslide: pathlib.Path, folder: pathlib.Path) -> None:
        self._dslide = dslide
        self.folder = folder
        self._make("dev", "--output", folder)

    def _make(self, command: str, *arguments: str | pathlib.Path) -> None:
        hosts = [word for host in HOSTS for word in ("--host", host)]
        subprocess.run([self._dslide, "certs", command, *arguments, *hosts], check=True,
                       capture_output=True, timeout=60)

    def renew(self) -> None:
        """All of them, by the same authority."""
        for role in ROLES:
            self._make("issue", "--from", self.folder, "--role", role, "--overwrite")

    def login(self) -> list[str]:
        """Flags of dslide for an operator."""
        return [f"--tls-ca={self.folder / 'ca.crt'}", f"--tls-cert={self.folder / 'operator.crt'}",
                f"--tls-key={self.folder / 'operator.key'}"]

    def serial(self, role: str) -> str:
        return subprocess.run(
            ["openssl", "x509", "-noout", "-serial", "-in", self.folder / f"{role}.crt"],
            check=True, capture_output=True, text=True, timeout=60).stdout.strip()
