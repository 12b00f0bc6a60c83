"""Parts of the published files: evenly spread points, and the words of a text.

The files are ordered by label where they come from, so that their first points are of a few labels.
"""

import gzip
import lzma
import pathlib
from collections.abc import Callable
from typing import IO, Any

_OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
TEXT_TRAINING_SHARE = 0.8  # of Text8's words, as in the papers


def _open(path: pathlib.Path) -> IO[str]:
    return _OPEN.get(path.suffix, open)(path, "rt", encoding="ascii")


def header(path: pathlib.Path) -> tuple[int, int, int]:
    """Points, features, labels of a file of sparse text; ValueError where it is none."""
    with _open(path) as file:
        words = file.readline().split()
    if len(words) != 3 or not all(word.isdigit() for word in words):
        raise ValueError(f"{path}:1: {' '.join(words)!r} instead of 'points features labels'")
    return int(words[0]), int(words[1]), int(words[2])


def thin(path: pathlib.Path, most: int | None, target: pathlib.Path) -> pathlib.Path:
    """A file with `most` evenly spread points; the file itself where it has no more."""
    points, features, labels = header(path)
    if most is None or points <= most:
        return path
    with _open(path) as source, open(target, "w", encoding="ascii") as out:
        next(source)
        out.write(f"{most} {features} {labels}\n")
        for at, line in enumerate(source):
            if at < points and at * most // points != (at + 1) * most // points:
                out.write(line)
    return target


def split_text(
    path: pathlib.Path, most: int | None, most_test: int, folder: pathlib.Path
) -> tuple[pathlib.Path, pathlib.Path]:
    """Of a text the first words, `most` at most, as train.txt; of the others some as test.txt."""
    with _open(path) as file:
        words = file.read().split()
    cut = int(TEXT_TRAINING_SHARE * len(words))
    parts = {"train": words[: min(cut, most or cut)], "test": words[cut : cut + most_test]}
    for part, chosen in parts.items():
        (folder / f"{part}.txt").write_text(" ".join(chosen) + "\n", encoding="ascii")
    return folder / "train.txt", folder / "test.txt"


def text_shape(path: pathlib.Path) -> tuple[int, int, int]:
    """Of a text as dslide learns it: a point for each word, a feature and a label for each one."""
    words = path.read_text(encoding="ascii").split()
    known = len(set(words))
    return len(words), known, known
