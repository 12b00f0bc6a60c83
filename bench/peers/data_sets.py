"""The data sets of ./run bench peers: where they are, and how those are made that can be made."""

import dataclasses
import lzma
import pathlib
import shutil
import subprocess

import programs

ROOT = programs.ROOT
SHARED = ROOT.parent / "shared/data"
# Name -> (folder below SHARED, what its files' names begin with).
_SHARED_FILES = {
    "citeulike-t": ("citeulike-t", ""),
    "delicious": ("delicious-bibtex", "delicious_"),
    "bibtex": ("delicious-bibtex", "bibtex_"),
}
# Made by `dslide data` of what apt knows.
_DEBIAN = {
    "debian-packages": ["debian-packages"],
    "debian-files": ["debian-files"],
    # Of file names that two packages ship: a label has one or two examples.
    "debian-rare": ["debian-files", "--max-packages", "2"],
}
# Of Amazon-670K, with a part of its points; what `dslide data gen` makes by itself.
_GENERATED = {
    "generated": [
        "--features",
        135_909,
        "--labels",
        670_091,
        "--points",
        50_000,
        "--eval-points",
        5000,
    ]
}
_QUICK = {"quick": ["--features", 500, "--labels", 1500, "--points", 600, "--eval-points", 100]}
# As `dslide data` names it.
GROUPS = "groups.txt"
NAMES = [*_SHARED_FILES, *_DEBIAN, *_GENERATED]
QUICK_NAMES = list(_QUICK)
_MAKING_SECONDS = 600


class Absent(Exception):
    """Why a data set cannot be had here, and what to do."""


@dataclasses.dataclass
class DataSet:
    name: str
    train: pathlib.Path  # sparse text, plain
    test: pathlib.Path
    groups: pathlib.Path | None = None  # of the training points, where near-duplicates are together


def find(name: str, started: programs.Programs, folder: pathlib.Path) -> DataSet:
    """A set by its name, or of a folder with train.txt and test.txt (or .xz); raises Absent.

    What is packed is unpacked to `folder`; what is made is kept in data/.
    """
    if name in _SHARED_FILES:
        where, prefix = _SHARED_FILES[name]
        return _of_folder(name, SHARED / where, prefix, folder)
    if name in _DEBIAN:
        return _of_folder(name, _debian(name), "", folder)
    if name in _GENERATED | _QUICK:
        paths = started.data((_GENERATED | _QUICK)[name])
        return DataSet(name, pathlib.Path(paths["train"]), pathlib.Path(paths["eval"]))
    path = pathlib.Path(name).resolve()
    return _of_folder(path.name, path, "", folder)


def _of_folder(name: str, source: pathlib.Path, prefix: str, folder: pathlib.Path) -> DataSet:
    if not source.is_dir():
        raise Absent(f"{_shown(source)} not present")
    parts = [_plain(source / f"{prefix}{part}.txt", folder) for part in ("train", "test")]
    groups = source / f"{prefix}{GROUPS}"
    return DataSet(name, *parts, groups if groups.is_file() else None)


def _plain(path: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    if path.is_file():
        return path
    packed = path.with_name(path.name + ".xz")
    if not packed.is_file():
        raise Absent(f"neither {_shown(path)} nor {packed.name} beside it is there")
    target = folder / path.name
    with lzma.open(packed) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out)
    return target


def _debian(name: str) -> pathlib.Path:
    folder = ROOT / "data" / name
    if not (folder / "train.txt").is_file():
        program = programs.processes.bin_dir() / "dslide"
        done = subprocess.run(
            [program, "data", *_DEBIAN[name], "--output", folder],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_MAKING_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["it said nothing"]
            command = " ".join(["dslide data", *_DEBIAN[name]])
            raise Absent(f"{command} ended with {done.returncode}: {lines[0]}")
    return folder


def _shown(path: pathlib.Path) -> str:
    return f"../{path.relative_to(ROOT.parent)}" if path.is_relative_to(SHARED) else str(path)
