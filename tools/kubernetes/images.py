"""The images that the nodes are given: a release's, and the one that holds a pod together."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Sequence

import image_archive
import node

ROOT = pathlib.Path(__file__).resolve().parents[2]
REGISTRY = "localhost"
PROGRAMS = ("dslide", "dslide-shard", "dslide-coordinator")
USER = "10001:10001"
# Of this version, and of one to which it is upgraded: the same files.
TAG = (ROOT / "VERSION").read_text(encoding="ascii").strip()
NEXT_TAG = f"{TAG}-next"


def make_pause(folder: pathlib.Path) -> pathlib.Path:
    root = folder / "pause"
    root.mkdir()
    subprocess.run(["cc", "-static", "-O2", "-o", root / "pause",
                    pathlib.Path(__file__).with_name("pause.c")], check=True)
    archive = folder / "pause.tar"
    image_archive.write(root, node.PAUSE_IMAGE, archive, entrypoint=["/pause"])
    return archive


def make_dslide(bin_dir: pathlib.Path, folder: pathlib.Path, tags: Sequence[str]
                ) -> list[pathlib.Path]:
    """localhost/dslide:TAG, with the root file system that deploy/image makes."""
    programs = folder / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        subprocess.run(["strip", "--strip-unneeded", "-o", programs / name, bin_dir / name],
                       check=True)
    root = folder / "root"
    subprocess.run([sys.executable, ROOT / "deploy/image/rootfs.py", "--output", root,
                    "--license", ROOT / "LICENSE", *(programs / name for name in PROGRAMS)],
                   check=True, stdout=sys.stderr)
    archives = []
    for tag in tags:
        archives.append(folder / f"dslide-{tag}.tar")
        image_archive.write(root, f"{REGISTRY}/dslide:{tag}", archives[-1],
                            entrypoint=["/usr/bin/dslide"], user=USER)
    return archives
