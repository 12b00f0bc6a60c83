"""Certificates for clusters of containers, made by the image's own `dslide certs`."""

import json
import os
import pathlib
from collections.abc import Iterable
from typing import Any

from engine import Engine, Unavailable, Word


class CertificateAuthority:
    """The cluster's authority in `folder`/own and strangers' in `folder`/foreign, for `hosts`."""

    def __init__(self, engine: Engine, image: str, folder: pathlib.Path,
                 hosts: Iterable[str]) -> None:
        if os.geteuid() != 0:
            raise Unavailable("certificates are laid out for user 10001, which needs root")
        self._engine = engine
        self._image = image
        self._folder = folder
        self.own = folder / "own"
        folder.mkdir()
        # The image's user writes there.
        folder.chmod(0o777)
        named = [word for host in hosts for word in ("--host", host)]
        for name in ("own", "foreign"):
            self._certs("dev", "--output", f"/certs/{name}", *named)

    def _certs(self, *arguments: str) -> Any:
        said = self._engine.output("run", "--rm", "--network", "none", "-v",
                                   f"{self._folder}:/certs", self._image, "certs", *arguments,
                                   "-o", "json")
        return json.loads(said.splitlines()[-1])

    def issue(self, name: str, *jobs: str) -> None:
        """One more trainer of that name; with jobs, for these alone."""
        bound = [word for job in jobs for word in ("--job", job)]
        self._certs("issue", "--from", "/certs/own", "--name", name, *bound)

    def revoke(self, name: str) -> pathlib.Path:
        """Adds that certificate to the revoked ones; the path of the list that has it."""
        made = self._certs("revoke", "--from", "/certs/own", f"/certs/own/{name}.crt")
        return self.own / "crl" / pathlib.Path(made["list"]).name

    def visit(self) -> list[Word]:
        """What strangers.py needs to know of all this."""
        return ["--certificates", self.own, "--foreign", self._folder / "foreign", "--work",
                self._folder / "strangers"]
