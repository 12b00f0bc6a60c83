"""Takes all that a disk has left, and gives it back."""

from __future__ import annotations

import errno
import os
import pathlib

_CHUNK = bytes(1 << 16)


class DiskFiller:
    """Of the disk that is mounted at `path`, by one file on it."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

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
