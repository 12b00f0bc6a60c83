"""Deterministic orders of points: the same in every client, so that trainers can share an epoch."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dslide import _random
from dslide.errors import InvalidArgumentError

I64 = npt.NDArray[np.int64]
_EPOCH_PART = 0x65706F6368
_SPLIT_PART = 0x73706C6974
_ROUNDS = 8


class IndexPermutation:
    """A keyed bijection of [0, size): a Feistel network, walked until it falls into the range.

    Source: Black and Rogaway 2002, "Ciphers with arbitrary finite domains".
    """

    def __init__(self, size: int, key: int) -> None:
        self.size = size
        self._key = np.uint64(key)
        bits = (size - 1).bit_length()
        self._low_bits = np.uint64((bits + 1) // 2)
        self._low_mask = np.uint64((1 << ((bits + 1) // 2)) - 1)
        self._high_mask = np.uint64((1 << (bits - (bits + 1) // 2)) - 1)

    def _round(self, number: int, half: _random.U64) -> _random.U64:
        with np.errstate(over="ignore"):
            return _random.counter_bits(self._key + np.uint64(number), half)

    def map(self, indices: npt.ArrayLike) -> I64:
        """The images of indices in [0, size)."""
        values = np.array(indices, dtype=np.uint64).reshape(-1)
        outside = np.ones(len(values), dtype=bool)
        while outside.any():
            inner = values[outside]
            low, high = inner & self._low_mask, inner >> self._low_bits
            for number in range(0, _ROUNDS, 2):
                high ^= self._round(number, low) & self._high_mask
                low ^= self._round(number + 1, high) & self._low_mask
            values[outside] = (high << self._low_bits) | low
            outside = values >= np.uint64(self.size)
        return values.astype(np.int64)


def _key(seed: int, *parts: int) -> int:
    key = np.asarray(seed, dtype=np.uint64)
    for part in parts:
        key = np.asarray(_random.derive_key(key, part))
    return int(key)


class EpochOrder:
    """The order in which one epoch visits the points; never the order of the file."""

    def __init__(self, num_points: int, seed: int, epoch: int) -> None:
        key = _key(seed, _EPOCH_PART, epoch)
        self._permutation = IndexPermutation(num_points, key)
        attempt = 0
        while num_points > 1 and self._is_identity():
            attempt += 1
            self._permutation = IndexPermutation(num_points, _key(key, attempt))

    def _is_identity(self) -> bool:
        start = min(self._permutation.size, 64)
        if not np.array_equal(self._permutation.map(np.arange(start)), np.arange(start)):
            return False
        everything = np.arange(self._permutation.size)
        return np.array_equal(self._permutation.map(everything), everything)

    def points_at(self, first: int, count: int) -> I64:
        """The points at positions first .. first + count - 1."""
        return self._permutation.map(np.arange(first, first + count))


class TrainingSplit:
    """Which points are held out for validation, by seed alone."""

    def __init__(self, num_points: int, seed: int, fraction: float, max_validation: int) -> None:
        if num_points < 1:
            raise InvalidArgumentError(f"cannot split {num_points} points; at least 1 is needed")
        if not 0.0 <= fraction <= 0.5:
            raise InvalidArgumentError(f"validation fraction {fraction} is outside [0, 0.5]")
        held_out = math.floor(num_points * fraction)
        self.num_points = num_points
        self.num_validation = min(held_out, max_validation) if max_validation > 0 else held_out
        self.num_training = num_points - self.num_validation
        self._permutation = IndexPermutation(num_points, _key(seed, _SPLIT_PART))

    def training_points(self, positions: I64) -> I64:
        """Indices in the data of training positions, each in [0, num_training)."""
        if self.num_validation == 0:
            return positions
        return self._permutation.map(positions + self.num_validation)

    def validation_points(self) -> I64:
        """Indices in the data of all validation points."""
        return self._permutation.map(np.arange(self.num_validation))
