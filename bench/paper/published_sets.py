"""The data sets of the papers of SLIDE: what they are called on disk, and how they were trained."""

import dataclasses
import pathlib
from collections.abc import Iterator

_REPOSITORY = "http://manikvarma.org/downloads/XC/XMLRepository.html"
# What the reader of sparse text unpacks by itself, and what samples.py does.
PACKED = ("", ".gz", ".xz")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a paper trained it: one hidden layer, Adam at 1e-4."""

    hidden: int
    batch: int
    family: str
    codes_per_table: int  # K
    num_tables: int  # L
    paper: str


@dataclasses.dataclass(frozen=True)
class Published:
    name: str
    folders: tuple[str, ...]  # any of these below the user's folder, or that itself
    files: tuple[str, ...]  # "{part}" stands for train and test; without it, both are in one file
    source: str
    settings: Settings


@dataclasses.dataclass(frozen=True)
class Found:
    published: Published
    train: pathlib.Path
    test: pathlib.Path  # the same file as `train` where both parts are in one

    @property
    def is_text(self) -> bool:
        return self.train == self.test


# Chen et al. 2020, sec. 5, and Daghaghi et al. 2021, sec. 5.
_SLIDE, _OPTIMIZED = "arXiv:1903.03129", "arXiv:2103.10891"
SETS = (
    Published(
        "Delicious-200K",
        ("Delicious-200K", "DeliciousLarge-200K", "DeliciousLarge", "Delicious-200K.bow"),
        ("deliciousLarge_{part}.txt", "{part}.txt"),
        _REPOSITORY,
        Settings(128, 128, "simhash", 9, 50, _SLIDE),
    ),
    Published(
        "Amazon-670K",
        ("Amazon-670K", "Amazon-670K.bow", "Amazon670K.bow", "Amazon670K", "Amazon"),
        ("amazon_{part}.txt", "{part}.txt"),
        _REPOSITORY,
        Settings(128, 256, "dwta", 8, 50, _SLIDE),
    ),
    Published(
        "WikiLSHTC-325K",
        ("WikiLSHTC-325K", "WikiLSHTC", "WikiLSHTC-325K.bow"),
        ("wikiLSHTC_{part}.txt", "{part}.txt"),
        _REPOSITORY,
        Settings(128, 256, "dwta", 5, 350, _OPTIMIZED),
    ),
    Published(
        "Text8",
        ("text8", "Text8"),
        ("text8", "text8.txt"),
        "http://mattmahoney.net/dc/text8.zip",
        Settings(200, 512, "simhash", 9, 50, _OPTIMIZED),
    ),
)


def find(published: Published, folder: pathlib.Path) -> Found | None:
    """The first layout whose files are there."""
    for train, test in _candidates(published, folder):
        if train.is_file() and test.is_file():
            return Found(published, train, test)
    return None


def _candidates(
    published: Published, folder: pathlib.Path
) -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
    for below in (*published.folders, "."):
        for pattern in published.files:
            # A train.txt outside any folder could be anybody's.
            if below == "." and pattern.startswith("{part}"):
                continue
            for packed in PACKED:
                train, test = (
                    folder / below / (pattern.format(part=part) + packed)
                    for part in ("train", "test")
                )
                yield train, test


def wanted(published: Published) -> str:
    """What to put where, for somebody who lacks it."""
    parts = ("train", "test") if "{part}" in published.files[0] else ("",)
    names = " and ".join(published.files[0].format(part=part) for part in parts)
    return f"get it from {published.source} and unpack {names} to {published.folders[0]}/"
