"""Images as folders of the OCI layout, made without an engine: equal files make equal digests."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import io
import json
import pathlib
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

_OCI = "application/vnd.oci.image"
_INDEX = f"{_OCI}.index.v1+json"
_LEVEL = 6

# A descriptor of the image specification: mediaType, digest, size, for an image its platform.
Descriptor = dict[str, Any]


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def layer_of_folder(root: pathlib.Path) -> bytes:
    """A tar archive of all below `root`, as files of root."""
    return subprocess.run(
        ["tar", "-C", root, "--sort=name", "--numeric-owner", "--owner=0", "--group=0",
         "--mtime=@0", "-c", "."], check=True, capture_output=True).stdout


def layer_with_folder(path: str, owner: int, mode: int) -> bytes:
    """A tar archive of one empty folder that belongs to somebody."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as out:
        entry = tarfile.TarInfo(path)
        entry.type, entry.uid, entry.gid, entry.mode = tarfile.DIRTYPE, owner, owner, mode
        out.addfile(entry)
    return content.getvalue()


@dataclasses.dataclass(frozen=True)
class Image:
    """What an image is made of. architecture: as in GOARCH; config: of the image specification."""

    architecture: str
    created: str
    config: Mapping[str, Any]
    layers: Sequence[bytes]


@dataclasses.dataclass(frozen=True)
class Artifact:
    """Something else that a registry keeps: a blob with notes."""

    content: bytes
    media_type: str
    annotations: Mapping[str, str]


class Layout:
    """A folder that holds one image, or one for each of several architectures."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    @property
    def index(self) -> bytes:
        return (self.folder / "index.json").read_bytes()

    @property
    def manifests(self) -> list[Descriptor]:
        """Of the images, one for each architecture."""
        found: list[Descriptor] = json.loads(self.index)["manifests"]
        return found

    @property
    def architectures(self) -> list[str]:
        return [item["platform"]["architecture"] for item in self.manifests]

    @property
    def digest(self) -> str:
        """Of what a registry is given: the image when there is one, else the index of them."""
        return (str(self.manifests[0]["digest"]) if len(self.manifests) == 1
                else digest_of(self.index))

    def blob(self, digest: str) -> pathlib.Path:
        return self.folder / "blobs" / digest.replace(":", "/")

    def _add(self, content: bytes, media_type: str) -> Descriptor:
        digest = digest_of(content)
        path = self.blob(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def _finish(self, manifests: Sequence[Descriptor]) -> None:
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        (self.folder / "index.json").write_bytes(_encoded(
            {"schemaVersion": 2, "mediaType": _INDEX, "manifests": list(manifests)}))

    def write(self, image: Image) -> None:
        """Makes the folder, of this image alone."""
        shutil.rmtree(self.folder, ignore_errors=True)
        config = self._add(_encoded({
            "architecture": image.architecture, "os": "linux", "created": image.created,
            "config": image.config,
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in image.layers]},
        }), f"{_OCI}.config.v1+json")
        layers = [self._add(_compressed(layer), f"{_OCI}.layer.v1.tar+gzip")
                  for layer in image.layers]
        manifest = self._add(_encoded({
            "schemaVersion": 2, "mediaType": f"{_OCI}.manifest.v1+json", "config": config,
            "layers": layers}), f"{_OCI}.manifest.v1+json")
        self._finish([{**manifest,
                       "platform": {"architecture": image.architecture, "os": "linux"}}])

    def write_artifacts(self, artifacts: Sequence[Artifact]) -> None:
        """Makes the folder, with these as the layers of something that nobody runs."""
        shutil.rmtree(self.folder, ignore_errors=True)
        config = self._add(_encoded({
            "architecture": "", "os": "", "config": {},
            "rootfs": {"type": "layers",
                       "diff_ids": [digest_of(one.content) for one in artifacts]},
        }), f"{_OCI}.config.v1+json")
        manifest = self._add(_encoded({
            "schemaVersion": 2, "mediaType": f"{_OCI}.manifest.v1+json", "config": config,
            "layers": [{**self._add(one.content, one.media_type),
                        "annotations": dict(one.annotations)} for one in artifacts]}),
            f"{_OCI}.manifest.v1+json")
        self._finish([manifest])

    def join(self, other: Layout) -> None:
        """Takes the images of another machine. ValueError for an architecture that is here."""
        both = set(self.architectures) & set(other.architectures)
        if both:
            raise ValueError(f"{other.folder} holds an image for {', '.join(sorted(both))}, which "
                             "is made here: give layouts of other architectures")
        for path in (other.folder / "blobs" / "sha256").iterdir():
            content = path.read_bytes()
            if digest_of(content) != f"sha256:{path.name}":
                raise ValueError(f"{path} is damaged: copy the layout again")
            shutil.copyfile(path, self.blob(f"sha256:{path.name}"))
        self._finish(sorted([*self.manifests, *other.manifests],
                            key=lambda item: str(item["platform"]["architecture"])))


@functools.lru_cache(maxsize=4)
def _compressed(layer: bytes) -> bytes:
    """Images share layers."""
    return gzip.compress(layer, _LEVEL, mtime=0)


def _encoded(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
