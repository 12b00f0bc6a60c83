"""Reads the sparse text format of docs/start/data.md without a loop over its numbers."""

from __future__ import annotations

import gzip
import lzma
import os

import numpy as np
import numpy.typing as npt
from google_crc32c import value as crc32c

from dslide import _random
from dslide.data import MAX_ID, Data, key_of_shape, sorted_within_samples
from dslide.errors import InvalidArgumentError, NotFoundError
from dslide.ragged import Ragged

_POWERS_OF_TEN = np.array([10**k for k in range(8)], dtype=np.float32)
_BLANK, _TAB, _COMMA, _COLON, _LINE = (ord(c) for c in " \t,:\n")


def read_sparse(path: str | os.PathLike[str]) -> Data:
    """Reads a file of the sparse text format (docs/start/data.md), plain, .gz or .xz, into memory.

    Raises InvalidArgumentError naming file, line and column of the first malformed place.
    """
    where = os.fspath(path)
    text = _read_text(where).rstrip(b"\r\n")
    header, _, body = text.partition(b"\n")
    sizes = header.split()
    if len(sizes) != 3 or not all(size.isdigit() for size in sizes):
        raise InvalidArgumentError(
            f"{where}:1:1: found {header[:40]!r}, expected: points features labels"
        )
    points, num_features, num_labels = (int(size) for size in sizes)
    if not (points > 0 and 0 < num_features <= MAX_ID and 0 < num_labels <= MAX_ID):
        raise InvalidArgumentError(
            f"{where}:1:1: found {header.decode()!r}, expected sizes in [1, {MAX_ID}]"
        )
    features, labels = _Parser(where, body, num_features, num_labels).parse(points)
    fingerprint = _hash_sample(key_of_shape(points, num_features, num_labels), text)
    return Data(features, labels, num_features, num_labels, fingerprint, where)


def _read_text(where: str) -> bytes:
    try:
        with open(where, "rb") as file:
            data = file.read()
        if data[:2] == b"\x1f\x8b":
            return gzip.decompress(data)
        if data[:6] == b"\xfd7zXZ\x00":
            return lzma.decompress(data)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {where}") from None
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InvalidArgumentError(f"cannot read {where}: {error}") from None
    if data[:4] in (b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"):
        raise InvalidArgumentError(f"{where} is compressed by zstd or lz4: unpack it first")
    return data


class _Parser:
    """Parses all lines at once: tokens are runs between delimiters, told apart by those."""

    def __init__(self, path: str, body: bytes, num_features: int, num_labels: int) -> None:
        self._path = path
        # A line end before and behind: every token has a delimiter on each side.
        text = body.replace(b"\r\n", b"\n") if b"\r" in body else body
        self._text = np.frombuffer(b"\n" + text + b"\n", dtype=np.uint8)
        self._sizes = {"feature": num_features, "label": num_labels}

    def _fail(self, place: int, expected: str) -> InvalidArgumentError:
        """At a place in the text, of which line and column are told."""
        before = self._text[:place]
        ends = np.flatnonzero(before == _LINE)
        stop = place
        while stop < len(self._text) and self._text[stop] not in (_BLANK, _TAB, _LINE):
            stop += 1
        found = bytes(self._text[place:stop])[:40].decode(errors="replace") or "nothing"
        return InvalidArgumentError(
            f"{self._path}:{len(ends) + 1}:{place - int(ends[-1])}: found "
            f"{found!r}, expected {expected}"
        )

    def parse(self, points: int) -> tuple[Ragged, Ragged]:
        text = self._text
        delimiter = (
            (text == _BLANK)
            | (text == _TAB)
            | (text == _COMMA)
            | (text == _COLON)
            | (text == _LINE)
        )
        edges = np.flatnonzero(delimiter)
        lengths = np.diff(edges) - 1
        before, behind = text[edges[:-1]], text[edges[1:]]
        lines = np.flatnonzero(text == _LINE)
        empty = np.flatnonzero(np.diff(lines) == 1)
        if len(empty) and len(text) > 2:
            raise self._fail(int(lines[empty[0]]) + 1, "a point")
        if len(lines) - 1 != points:
            line = min(points, len(lines) - 1)
            raise InvalidArgumentError(
                f"{self._path}:{line + 2}:1: found {len(lines) - 1} points, expected {points} as "
                "the header says"
            )
        starts = edges[:-1] + 1
        # What a token is follows from what stands around it; runs of blanks have no token.
        token = lengths > 0
        is_blank_behind = (behind == _BLANK) | (behind == _TAB) | (behind == _LINE)
        is_value = before == _COLON
        is_feature = behind == _COLON
        is_label = ((before == _LINE) | (before == _COMMA)) & ~is_feature
        separates = (before == _COMMA) | (behind == _COMMA) | is_value | is_feature
        wrong = (
            (separates & ~token)
            | (token & ~(is_value | is_feature | is_label))
            | (is_value & (is_feature | ~is_blank_behind))
            | (is_feature & ((before == _LINE) | (before == _COMMA)))
            | (is_label & token & ~(is_blank_behind | (behind == _COMMA)))
        )
        # A comma is only part of a run of labels that begins its line.
        labelled = is_label & token
        comma_first = labelled & (before == _COMMA)
        previous = np.concatenate([[False], labelled[:-1]])
        wrong |= comma_first & ~previous
        if wrong.any():
            place = int(starts[np.flatnonzero(wrong)[0]])
            raise self._fail(
                place,
                "feature:value, or labels separated by commas at the begin of "
                "the line (the line of a point without labels begins with a "
                "blank)",
            )
        is_feature &= token
        is_value &= token
        line_of = np.cumsum(before == _LINE) - 1
        labels = self._ids("label", starts[labelled], lengths[labelled])
        features = self._ids("feature", starts[is_feature], lengths[is_feature])
        values = self._floats(starts[is_value], lengths[is_value])
        return (
            self._ragged(features, values, line_of[is_feature], points),
            self._ragged(labels, None, line_of[labelled], points),
        )

    def _ragged(
        self,
        ids: npt.NDArray[np.uint32],
        values: npt.NDArray[np.float32] | None,
        line_of: npt.NDArray[np.int64],
        points: int,
    ) -> Ragged:
        counts = np.bincount(line_of, minlength=points)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return sorted_within_samples(Ragged(offsets, ids, values), self._path)

    def _digits(
        self, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], column: int
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint8]]:
        """Which tokens have a character there, and those characters."""
        there = lengths > column
        return there, self._text[starts[there] + column]

    def _ids(
        self, what: str, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint32]:
        size = self._sizes[what]
        numbers = np.zeros(len(starts), dtype=np.int64)
        good = lengths <= 18
        for column in range(int(min(lengths.max(initial=0), 18))):
            there, characters = self._digits(starts, lengths, column)
            digits = characters.astype(np.int64) - ord("0")
            good[there] &= (digits >= 0) & (digits <= 9)
            numbers[there] = numbers[there] * 10 + digits
        good &= numbers < size
        if not good.all():
            shape = "feature:value with a feature id" if what == "feature" else "a label id"
            raise self._fail(int(starts[np.flatnonzero(~good)[0]]), f"{shape} in [0, {size})")
        return numbers.astype(np.uint32)

    def _floats(
        self, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        # Up to 7 digits and a point: digits and power of ten are exact, so one division is, too.
        digits = np.zeros(len(starts), dtype=np.int64)
        behind_point = np.full(len(starts), -1, dtype=np.int64)
        short = lengths <= 8
        for column in range(int(min(lengths.max(initial=0), 8))):
            there, characters = self._digits(starts, lengths, column)
            is_point = characters == ord(".")
            digit = characters.astype(np.int64) - ord("0")
            short[there] &= (is_point & (behind_point[there] < 0)) | ((digit >= 0) & (digit <= 9))
            digits[there] = np.where(is_point, digits[there], digits[there] * 10 + digit)
            behind_point[there] += np.where(is_point, 1, behind_point[there] >= 0)
        short &= (lengths - (behind_point >= 0) <= 7) & (lengths - (behind_point >= 0) > 0)
        values = digits.astype(np.float32) / _POWERS_OF_TEN[np.clip(behind_point, 0, 7)]
        for i in np.flatnonzero(~short).tolist():
            text = bytes(self._text[starts[i] : starts[i] + lengths[i]])
            try:
                if text.strip() != text or b"_" in text:
                    raise ValueError(text)
                with np.errstate(over="ignore", under="ignore"):
                    values[i] = np.float32(text.decode("ascii"))
            except ValueError:
                values[i] = np.nan
            if not np.isfinite(values[i]):
                raise self._fail(int(starts[i]), "a finite decimal number")
        return values


def _hash_sample(key: int, text: bytes) -> int:
    """Mixes the size of the text and a sample of it, at most 400 KB, into the key."""
    end, block, blocks = 64 << 10, 4 << 10, 64
    pieces = [text[:end]]
    if len(text) > end:
        pieces.append(text[-end:])
        stride = max(block, len(text) // blocks)
        pieces += [text[at : at + block] for at in range(0, len(text), stride)]
    value = _random.counter_bits(key, len(text))
    for piece in pieces:
        value = _random.counter_bits(_random.counter_bits(value, len(piece)), crc32c(piece))
    return int(value)
