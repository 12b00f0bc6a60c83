"""A file system of a few MiB, mounted for a test, that can be filled up and freed."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess

from disk_filler import DiskFiller


class CannotMount(Exception):
    """This user may not mount here."""


class SmallDisk(DiskFiller, contextlib.AbstractContextManager["SmallDisk"]):
    """A tmpfs of `megabytes` at a new directory `path`, until the end of the context."""

    def __init__(self, path: pathlib.Path, megabytes: int) -> None:
        super().__init__(path)
        path.mkdir(parents=True)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", path],
            capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            raise CannotMount(f"tmpfs cannot be mounted here: {mounted.stderr.strip()}")

    def __exit__(self, *_: object) -> None:
        # Lazily: files on it may still be open.
        subprocess.run(["umount", "-l", self.path], check=False)
