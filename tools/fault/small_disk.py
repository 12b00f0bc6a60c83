"""A file system of a few MiB, mounted for a test, that can be filled up and freed."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import subprocess

_CHUNK = bytes(1 << 16)


class CannotMount(Exception):
    """This user may not mount here."""


class SmallDisk(contextlib.AbstractContextManager["SmallDisk"]):
    """A tmpfs of `megabytes` at a new directory `path`, until the end of the context."""

    def __init__(self, path: pathlib.Path, megabytes: int) -> None:
        self.path = path
        path.mkdir(parents=True)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", path],
            capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            raise CannotMount(f"tmpfs cannot be mounted here: {mounted.stderr.strip()}")

    def __exit__(self, *_: object) -> None:
        # Lazily: files on it may still be open.
        subprocess.run(["umount", "-l", self.path], check=False)

    @property
    def _filler(self) -> pathlib.Path:
        return self.path / "filler"

    def fill(self) -> None:
        """Takes all that is free, to the last byte."""
        with open(self._filler, "ab", buffering=0) as file:
            size = len(_CHUNK)
            while size > 0:
                try:
                    file.write(_CHUNK[:size])
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def shrink(self, count: int) -> None:
        """Gives so many bytes of what was taken back."""
        size = self._filler.stat().st_size
        os.truncate(self._filler, max(0, size - count))

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize
