"""Archives of container images, made of folders and without an engine."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import subprocess
import tarfile
from collections.abc import Sequence


def write(root: pathlib.Path, name: str, archive: pathlib.Path, *, entrypoint: Sequence[str],
          user: str = "") -> None:
    """The files below `root` as the only layer of the image NAME:TAG."""
    layer = subprocess.run(
        ["tar", "-C", root, "--sort=name", "--numeric-owner", "--owner=0", "--group=0",
         "--mtime=@0", "-c", "."], check=True, capture_output=True).stdout
    config = json.dumps({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/usr/bin"], "User": user,
                   "WorkingDir": "/tmp"},
        "rootfs": {"type": "layers",
                   "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created_by": name}],
    }).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps(
        [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(archive, "w") as out:
        for member, content in ((config_name, config), ("layer.tar", layer),
                                ("manifest.json", manifest)):
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content))
