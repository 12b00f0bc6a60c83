"""Damages the files of a directory, by a seed.

KIND: flip (one bit), truncate, zero_page (4 KiB become zeros), swap (two files change places,
or, with `other`, the file of the same kind from there takes the place), missing, append. What was
done is one record each, and enough to find the place again:

    {"seed": 7, "number": 0, "kind": "flip", "file": "latest/000008.sst", "file_kind": "sst",
     "offset": 4711, "bit": 3}
"""

from __future__ import annotations

import fnmatch
import pathlib
import random
from collections.abc import Sequence
from typing import Any

PAGE_BYTES = 4096
KINDS = ("flip", "truncate", "zero_page", "swap", "missing", "append")

# The first pattern that matches a file's name: what RocksDB calls its files, and JSON of our own.
FILE_KINDS = (
    ("manifest", "MANIFEST-*"),
    ("current", "CURRENT"),
    ("sst", "*.sst"),
    ("wal", "[0-9]*.log"),
    ("options", "OPTIONS-*"),
    ("identity", "IDENTITY"),
    ("lock", "LOCK"),
    ("info_log", "LOG*"),
    ("metadata", "*.json"),
)
OTHER_FILE = "other"


Record = dict[str, Any]


class NothingToDamage(Exception):
    """No file of the directory can be damaged in the way that was asked for."""


def file_kind(path: pathlib.Path) -> str:
    for kind, pattern in FILE_KINDS:
        if fnmatch.fnmatchcase(path.name, pattern):
            return kind
    return OTHER_FILE


def files_of(directory: pathlib.Path) -> list[pathlib.Path]:
    """The regular files below a directory, as sorted paths relative to it.

    But for the reserve for a full disk: nobody reads it, and it is large.
    """
    return sorted(path.relative_to(directory) for path in directory.rglob("*")
                  if path.is_file() and path.name != "RESERVE")


class Corrupter:
    """Damages one directory; one random choice after the other from the seed.

    kinds       what may be done; file_kinds: to which files, None: to all
    other       a directory with files for swaps from elsewhere; None: swaps stay inside
    """

    def __init__(self, directory: pathlib.Path, seed: str | int, kinds: Sequence[str] = KINDS,
                 file_kinds: Sequence[str] | None = None,
                 other: pathlib.Path | None = None) -> None:
        self.directory = pathlib.Path(directory).resolve()
        self._seed = seed
        self._random = random.Random(seed)
        self._kinds = kinds
        self._file_kinds = file_kinds
        self._other = pathlib.Path(other).resolve() if other else None
        self._number = 0

    def corrupt(self) -> Record:
        """Does one damage that changes bytes, and returns its record."""
        kinds = list(self._kinds)
        self._random.shuffle(kinds)
        for kind in kinds:
            files = [path for path in self._files() if self._suits(kind, path)]
            if files:
                path = self._random.choice(files)
                details = getattr(self, "_" + kind)(path)
                return self._record(kind, path, details)
        raise NothingToDamage(f"{self.directory}: no file for {', '.join(self._kinds)}"
                              f" of {self._file_kinds or 'any kind'}")

    def _files(self) -> list[pathlib.Path]:
        return [path for path in files_of(self.directory)
                if self._file_kinds is None or file_kind(path) in self._file_kinds]

    def _content(self, path: pathlib.Path) -> bytes:
        return (self.directory / path).read_bytes()

    def _suits(self, kind: str, path: pathlib.Path) -> bool:
        if kind == "missing" or kind == "append":
            return True
        if kind == "swap":
            return bool(self._partners(path))
        if kind == "zero_page":
            return any(self._content(path))
        return (self.directory / path).stat().st_size > 0

    def _partners(self, path: pathlib.Path) -> list[pathlib.Path]:
        """Files that differ from it, in whose place it may come: of its kind first."""
        content = self._content(path)
        root = self._other or self.directory
        same = [other for other in files_of(root)
                if file_kind(other) == file_kind(path) and (root / other).read_bytes() != content]
        if same or self._other:
            return same
        return [other for other in self._files() if self._content(other) != content]

    def _record(self, kind: str, path: pathlib.Path, details: Record) -> Record:
        record = {"seed": self._seed, "number": self._number, "kind": kind, "file": str(path),
                  "file_kind": file_kind(path)} | details
        self._number += 1
        return record

    def _write(self, path: pathlib.Path, content: bytes | bytearray) -> None:
        # A new file, so that hard links to the old one stay as they are.
        target = self.directory / path
        mode = target.stat().st_mode
        target.unlink()
        target.write_bytes(content)
        target.chmod(mode)

    def _flip(self, path: pathlib.Path) -> Record:
        content = bytearray(self._content(path))
        offset, bit = self._random.randrange(len(content)), self._random.randrange(8)
        content[offset] ^= 1 << bit
        self._write(path, content)
        return {"offset": offset, "bit": bit}

    def _truncate(self, path: pathlib.Path) -> Record:
        content = self._content(path)
        size = self._random.randrange(len(content))
        self._write(path, content[:size])
        return {"offset": size, "cut_bytes": len(content) - size}

    def _zero_page(self, path: pathlib.Path) -> Record:
        content = self._content(path)
        pages = [at for at in range(0, len(content), PAGE_BYTES)
                 if any(content[at:at + PAGE_BYTES])]
        offset = self._random.choice(pages)
        page = content[offset:offset + PAGE_BYTES]
        self._write(path, content[:offset] + bytes(len(page)) + content[offset + PAGE_BYTES:])
        return {"offset": offset, "zeroed_bytes": len(page)}

    def _swap(self, path: pathlib.Path) -> Record:
        partner = self._random.choice(self._partners(path))
        if self._other:
            self._write(path, (self._other / partner).read_bytes())
            return {"offset": 0, "with": str(self._other / partner)}
        mine, theirs = self._content(path), self._content(partner)
        self._write(path, theirs)
        self._write(partner, mine)
        return {"offset": 0, "with": str(partner)}

    def _missing(self, path: pathlib.Path) -> Record:
        (self.directory / path).unlink()
        return {"offset": 0}

    def _append(self, path: pathlib.Path) -> Record:
        content = self._content(path)
        more = self._random.randbytes(self._random.choice((1, 7, 100, PAGE_BYTES)))
        self._write(path, content + more)
        return {"offset": len(content), "appended_bytes": len(more)}
