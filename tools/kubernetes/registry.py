"""A registry of images and charts in the cluster's network, in the place of a public one, and a
release of this tree in it."""

from __future__ import annotations

import contextlib
import pathlib
import sys

from addresses import CONTROL_ADDRESS, REGISTRY
from cluster import Cluster, ClusterError, wait_until
from images import ROOT

_PLAIN_PORT = 5000  # of loopback; others find it on 443, with TLS
_PUBLISHING_SECONDS = 900


class Registry:
    """`crane`: the program that serves it."""

    def __init__(self, cluster: Cluster, helm: pathlib.Path, crane: pathlib.Path) -> None:
        self._cluster = cluster
        self.helm = helm
        self._crane = crane

    def start(self) -> None:
        """Until the cluster goes; empty."""
        folder = self._cluster.work / "registry"
        folder.mkdir()
        self._cluster.start("registry", self._crane, "registry", "serve", "--address",
                            f"127.0.0.1:{_PLAIN_PORT}", "--disk", folder)
        login = self._cluster.work / "authority"
        self._cluster.start("registry-tls", sys.executable,
                            pathlib.Path(__file__).with_name("tls_front.py"),
                            login / "registry.crt", login / "registry.key", CONTROL_ADDRESS, 443,
                            _PLAIN_PORT)
        wait_until(self._answers, "the registry answers")

    def _answers(self) -> bool:
        with contextlib.suppress(ClusterError):
            self._cluster.resolving(self._crane, "catalog", REGISTRY)
            return True
        return False

    def publish(self, prefix: str, bin_dir: pathlib.Path) -> None:
        """This tree as a release below REGISTRY/prefix."""
        self._cluster.resolving(
            sys.executable, ROOT / "tools/release/trial.py", "--registry", f"{REGISTRY}/{prefix}",
            "--helm", self.helm, "--crane", self._crane, "--bin-dir", bin_dir,
            within=_PUBLISHING_SECONDS)
