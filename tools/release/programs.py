"""The programs of others that a release is made with: helm and crane."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Sequence

from oci_layout import Artifact, Layout
from plan import Registry, ReleaseError

_PATIENCE_SECONDS = 1800
_OF_REGISTRIES = ("push", "pull", "template")


class Refused(ReleaseError):
    """A program ended with an error; `said` is what it wrote."""

    def __init__(self, command: str, said: str) -> None:
        super().__init__(f"{command}: {said.strip()}")
        self.said = said


class Programs:
    """Both use the logins of the user's own (`crane auth login`). folder: for what helm keeps
    beside them."""

    def __init__(self, folder: pathlib.Path, helm: pathlib.Path, crane: pathlib.Path,
                 registry: Registry) -> None:
        self._helm, self._crane, self._registry = helm, crane, registry
        self._environment = {**os.environ, **{name: str(folder / "helm") for name in
                             ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}}

    def _run(self, program: pathlib.Path, *arguments: object) -> str:
        done = subprocess.run(
            [program, *map(str, arguments)], capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=_PATIENCE_SECONDS, env=self._environment)
        if done.returncode != 0:
            raise Refused(f"{program.name} {arguments[0]}", done.stderr or done.stdout)
        return done.stdout

    def helm(self, command: str, *arguments: object) -> str:
        is_plain = self._registry.is_plain and command in _OF_REGISTRIES
        return self._run(self._helm, command, *arguments, *(["--plain-http"] if is_plain else []))

    def crane(self, command: str, *arguments: object) -> str:
        plain = ["--insecure"] if self._registry.is_plain else []
        return self._run(self._crane, command, *arguments, *plain)

    def digest(self, reference: str) -> str | None:
        """Of what the registry has under this name; None where it has nothing."""
        try:
            return self.crane("digest", reference).strip()
        except Refused as error:
            if any(word in error.said for word in (
                    "MANIFEST_UNKNOWN", "NAME_UNKNOWN", "404 Not Found")):
                return None
            raise

    def push_artifacts(self, reference: str, artifacts: Sequence[Artifact]) -> None:
        """In place of those that are there."""
        with tempfile.TemporaryDirectory(prefix="dslide-release-") as temporary:
            layout = Layout(pathlib.Path(temporary) / "layout")
            layout.write_artifacts(artifacts)
            self.crane("push", layout.folder, reference)

    def artifacts(self, reference: str) -> list[Artifact]:
        """ReleaseError when there are none."""
        if self.digest(reference) is None:
            raise ReleaseError(f"there is no {reference}")
        repository = reference.rpartition(":")[0]
        return [Artifact(self.crane("blob", f"{repository}@{layer['digest']}").encode(),
                         layer["mediaType"], layer.get("annotations", {}))
                for layer in json.loads(self.crane("manifest", reference))["layers"]]
