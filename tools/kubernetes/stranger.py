"""Somebody who has README.md, an empty cluster and nothing else."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

from cluster import Cluster, ClusterError
from images import ROOT

# What README.md says of an empty Kubernetes: the block of commands that begins with this.
_FIRST = "helm pull oci://"


def commands_of_readme() -> list[str]:
    """Its lines, as they stand: pull, install, port-forward. An error when it is no longer so."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"),
                        re.MULTILINE | re.DOTALL)
    found: list[list[str]] = [block.splitlines() for block in blocks if block.startswith(_FIRST)]
    wanted = (_FIRST, "helm install ", "kubectl port-forward ")
    if len(found) != 1 or len(found[0]) != len(wanted) or not all(
            line.startswith(start) for line, start in zip(found[0], wanted)):
        raise ClusterError(f"README.md has no block of the three commands {wanted}: {found}")
    return found[0]


def prefix_of(pull: str) -> str:
    """Below which a registry has images and charts, of a command that pulls ours."""
    found = re.search(r"oci://[^/]+/(\S+)/charts/", pull)
    if not found:
        raise ClusterError(f"no place of charts in: {pull}")
    return found[1]


class Stranger:
    """With an empty folder, helm and kubectl."""

    def __init__(self, cluster: Cluster, helm: pathlib.Path) -> None:
        self._cluster = cluster
        self._folder = cluster.work / "stranger"
        self._folder.mkdir()
        programs = cluster.work / "stranger-programs"
        programs.mkdir()
        (programs / "helm").symlink_to(helm)
        path = cluster.environment["PATH"]
        self._environment = cluster.environment | {"PATH": f"{programs}:{path}"}

    def _begin(self, command: str) -> subprocess.Popen[str]:
        print(f"   $ {command}", file=sys.stderr, flush=True)
        return subprocess.Popen(
            self._cluster.resolving_command("bash", "-c", command), cwd=self._folder,
            env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def types(self, command: str) -> None:
        """Shows what it says, and waits for its end."""
        with self._begin(command) as process:
            said = process.communicate()[0]
        if process.returncode != 0:
            raise ClusterError(f"{command}: status {process.returncode}\n{said}")
        print(said, file=sys.stderr)

    @contextlib.contextmanager
    def beside(self, command: str) -> Iterator[None]:
        """As in another terminal, which is closed in the end; what it has shown comes then."""
        with self._begin(command) as process:
            try:
                yield
            finally:
                os.killpg(process.pid, signal.SIGTERM)
                print(process.communicate()[0], file=sys.stderr)
