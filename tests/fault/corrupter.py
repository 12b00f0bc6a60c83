"""Damages the files of a directory, by a seed, and can undo it.

    python3 corrupter.py DIRECTORY --seed N [--count 1] [--kind KIND]... [--file-kind KIND]...
                         [--other DIRECTORY] [--undo]

KIND: flip (one bit), truncate, zero_page (4 KiB become zeros), swap (two files change places, or,
with --other, the file of the same kind from there takes the place), missing, append. What was done
is one JSON line each, and enough to find the place again:

    {"seed": 7, "number": 0, "kind": "flip", "file": "latest/000008.sst", "file_kind": "sst",
     "offset": 4711, "bit": 3}

The originals are kept in DIRECTORY.originals, with the log; --undo puts them back.
"""

import argparse
import fnmatch
import json
import pathlib
import random
import shutil
import sys

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


class NothingToDamage(Exception):
    """No file of the directory can be damaged in the way that was asked for."""


def file_kind(path):
    for kind, pattern in FILE_KINDS:
        if fnmatch.fnmatchcase(path.name, pattern):
            return kind
    return OTHER_FILE


def files_of(directory):
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

    def __init__(self, directory, seed, kinds=KINDS, file_kinds=None, other=None):
        self.directory = pathlib.Path(directory).resolve()
        self._originals = self.directory.with_name(self.directory.name + ".originals")
        self._log = self._originals / "log.jsonl"
        self._seed = seed
        self._random = random.Random(seed)
        self._kinds = kinds
        self._file_kinds = file_kinds
        self._other = pathlib.Path(other).resolve() if other else None
        self._number = 0

    def corrupt(self):
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

    def _files(self):
        return [path for path in files_of(self.directory)
                if self._file_kinds is None or file_kind(path) in self._file_kinds]

    def _content(self, path):
        return (self.directory / path).read_bytes()

    def _suits(self, kind, path):
        if kind == "missing" or kind == "append":
            return True
        if kind == "swap":
            return bool(self._partners(path))
        if kind == "zero_page":
            return any(self._content(path))
        return (self.directory / path).stat().st_size > 0

    def _partners(self, path):
        """Files that differ from it, in whose place it may come: of its kind first."""
        content = self._content(path)
        root = self._other or self.directory
        same = [other for other in files_of(root)
                if file_kind(other) == file_kind(path) and (root / other).read_bytes() != content]
        if same or self._other:
            return same
        return [other for other in self._files() if self._content(other) != content]

    def _record(self, kind, path, details):
        record = {"seed": self._seed, "number": self._number, "kind": kind, "file": str(path),
                  "file_kind": file_kind(path)} | details
        self._number += 1
        with open(self._log, "a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")
        return record

    def _keep(self, path):
        """Keeps the first state of a file."""
        kept = self._originals / "files" / path
        kept.parent.mkdir(parents=True, exist_ok=True)
        if not kept.exists():
            shutil.copy2(self.directory / path, kept)

    def _write(self, path, content):
        self._keep(path)
        # A new file, so that hard links to the old one stay as they are.
        target = self.directory / path
        mode = target.stat().st_mode
        target.unlink()
        target.write_bytes(content)
        target.chmod(mode)

    def _flip(self, path):
        content = bytearray(self._content(path))
        offset, bit = self._random.randrange(len(content)), self._random.randrange(8)
        content[offset] ^= 1 << bit
        self._write(path, content)
        return {"offset": offset, "bit": bit}

    def _truncate(self, path):
        content = self._content(path)
        size = self._random.randrange(len(content))
        self._write(path, content[:size])
        return {"offset": size, "cut_bytes": len(content) - size}

    def _zero_page(self, path):
        content = self._content(path)
        pages = [at for at in range(0, len(content), PAGE_BYTES)
                 if any(content[at:at + PAGE_BYTES])]
        offset = self._random.choice(pages)
        page = content[offset:offset + PAGE_BYTES]
        self._write(path, content[:offset] + bytes(len(page)) + content[offset + PAGE_BYTES:])
        return {"offset": offset, "zeroed_bytes": len(page)}

    def _swap(self, path):
        partner = self._random.choice(self._partners(path))
        if self._other:
            self._write(path, (self._other / partner).read_bytes())
            return {"offset": 0, "with": str(self._other / partner)}
        mine, theirs = self._content(path), self._content(partner)
        self._write(path, theirs)
        self._write(partner, mine)
        return {"offset": 0, "with": str(partner)}

    def _missing(self, path):
        self._keep(path)
        (self.directory / path).unlink()
        return {"offset": 0}

    def _append(self, path):
        content = self._content(path)
        more = self._random.randbytes(self._random.choice((1, 7, 100, PAGE_BYTES)))
        self._write(path, content + more)
        return {"offset": len(content), "appended_bytes": len(more)}

    def undo(self):
        """Puts the kept originals back; the number of files."""
        kept = self._originals / "files"
        paths = files_of(kept) if kept.is_dir() else []
        for path in paths:
            (self.directory / path).parent.mkdir(parents=True, exist_ok=True)
            (self.directory / path).unlink(missing_ok=True)
            shutil.copy2(kept / path, self.directory / path)
        shutil.rmtree(self._originals, ignore_errors=True)
        return len(paths)


def main():
    parser = argparse.ArgumentParser(description="Damages files by a seed.")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--file-kind", action="append",
                        choices=[kind for kind, _ in FILE_KINDS] + [OTHER_FILE])
    parser.add_argument("--other", type=pathlib.Path)
    parser.add_argument("--undo", action="store_true")
    options = parser.parse_args()
    corrupter = Corrupter(options.directory, options.seed, options.kind or KINDS, options.file_kind,
                          options.other)
    if options.undo:
        print(f"{corrupter.undo()} files put back", file=sys.stderr)
        return
    for _ in range(options.count):
        print(json.dumps(corrupter.corrupt()), flush=True)


if __name__ == "__main__":
    main()
