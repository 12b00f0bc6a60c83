"""Damages the files of a directory, by a seed.

KIND: flip (one bit), truncate, zero_page (4 KiB become zeros), swap (two files change places,
or, with `other`, the file of the same kind from there takes the place), missing, append. What was
done is a record, enough to find the place again:

    {"kind": "flip", "file": "latest/000008.sst", "file_kind": "sst", "offset": 4711, "bit": 3}
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
    return next((kind for kind, pattern in FILE_KINDS
                 if fnmatch.fnmatchcase(path.name, pattern)), OTHER_FILE)


def files_of(directory: pathlib.Path) -> list[pathlib.Path]:
    """The regular files below a directory, sorted.

    But for the reserve for a full disk: nobody reads it, and it is large.
    """
    return sorted(path for path in directory.rglob("*")
                  if path.is_file() and path.name != "RESERVE")


def corrupt(directory: pathlib.Path, seed: str | int, kinds: Sequence[str] = KINDS,
            file_kinds: Sequence[str] | None = None, other: pathlib.Path | None = None) -> Record:
    """Does one damage that changes bytes, and returns its record.

    kinds       what may be done; file_kinds: to which files, None: to all
    other       a directory with files for swaps from elsewhere; None: swaps stay inside
    """
    source = random.Random(seed)
    candidates = [path for path in files_of(directory)
                  if file_kinds is None or file_kind(path) in file_kinds]
    for kind in source.sample(kinds, len(kinds)):
        # Files that can be damaged so, with those that may come in their places.
        found = {path: _partners(path, candidates, other) if kind == "swap" else []
                 for path in candidates}
        suited = [path for path in candidates if found[path] or kind in ("missing", "append") or (
            any(path.read_bytes()) if kind == "zero_page" else
            kind != "swap" and path.stat().st_size > 0)]
        if suited:
            path = source.choice(suited)
            details = _damage(source, kind, path, found[path], other is None)
            return {"kind": kind, "file": str(path.relative_to(directory)),
                    "file_kind": file_kind(path)} | details
    raise NothingToDamage(f"{directory}: no file for {', '.join(kinds)} of "
                          f"{file_kinds or 'any kind'}")


def _partners(path: pathlib.Path, candidates: list[pathlib.Path],
              other: pathlib.Path | None) -> list[pathlib.Path]:
    """Files that differ from it, in whose place it may come: of its kind first."""
    content = path.read_bytes()
    differing = [one for one in (files_of(other) if other else candidates)
                 if one.read_bytes() != content]
    same = [one for one in differing if file_kind(one) == file_kind(path)]
    return same if same or other else differing


def _write(path: pathlib.Path, content: bytes) -> None:
    # A new file, so that hard links to the old one stay as they are.
    mode = path.stat().st_mode
    path.unlink()
    path.write_bytes(content)
    path.chmod(mode)


def _damage(source: random.Random, kind: str, path: pathlib.Path, partners: list[pathlib.Path],
            both_ways: bool) -> Record:
    content = path.read_bytes()
    if kind == "missing":
        path.unlink()
        return {"offset": 0}
    if kind == "append":
        _write(path, content + source.randbytes(source.choice((1, 7, 100, PAGE_BYTES))))
        return {"offset": len(content)}
    if kind == "swap":
        partner = source.choice(partners)
        theirs = partner.read_bytes()
        _write(path, theirs)
        if both_ways:
            _write(partner, content)
        return {"offset": 0, "with": str(partner)}
    if kind == "truncate":
        offset = source.randrange(len(content))
        _write(path, content[:offset])
        return {"offset": offset}
    if kind == "flip":
        offset, bit = source.randrange(len(content)), source.randrange(8)
        flipped = bytes([content[offset] ^ 1 << bit])
        _write(path, content[:offset] + flipped + content[offset + 1:])
        return {"offset": offset, "bit": bit}
    assert kind == "zero_page", kind
    offset = source.choice([at for at in range(0, len(content), PAGE_BYTES)
                            if any(content[at:at + PAGE_BYTES])])
    zeros = bytes(len(content[offset:offset + PAGE_BYTES]))
    _write(path, content[:offset] + zeros + content[offset + PAGE_BYTES:])
    return {"offset": offset}
