"""Fingerprints of queries: the addresses in a head's hash tables at which similar rows are found.

`docs/understand/hashing.md` states the algorithms. Only additions and comparisons in a stated order
are used, so fingerprints are equal, bit for bit, to those of every other client and of the shards.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from dslide import _random
from dslide._random import U64
from dslide.v1 import model_pb2

F32 = npt.NDArray[np.float32]
U32 = npt.NDArray[np.uint32]

_SIMHASH_PART = 1
_DWTA_PART = 2
_MIN_WIDTH = 16
_EXTRAS = 2  # a query is extended by the constants 1 and 0: see docs/understand/hashing.md
_MAX_PROBES = 64


class HashFamily(Protocol):
    """Hashes hidden vectors. Immutable and thread-safe."""

    num_tables: int

    def hash_queries(self, hidden: F32) -> U32:
        """Fingerprints, uint32 [B, num_tables], of hidden vectors, float32 [B, dim]."""


def hash_family(spec: model_pb2.HashSpec, dim: int) -> HashFamily:
    """The family that a head's resolved hash settings name, for vectors of `dim` floats."""
    if spec.family == "dwta":
        return Dwta(spec, dim)
    return SimHash(spec, dim)


def _signs(key: U64, width: int) -> F32:
    words = _random.counter_bits(key, np.arange((width + 63) // 64))
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")[:width]
    return np.where(bits == 1, np.float32(-1), np.float32(1))


def _hadamard(x: F32) -> F32:
    """Walsh-Hadamard transforms of the columns of x, [n, B] with n a power of two."""
    n, batch = x.shape
    y = np.empty_like(x)
    distance = 1
    while distance < n:
        pairs = x.reshape(n // (2 * distance), 2, distance * batch)
        into = y.reshape(pairs.shape)
        np.add(pairs[:, 0], pairs[:, 1], out=into[:, 0])
        np.subtract(pairs[:, 0], pairs[:, 1], out=into[:, 1])
        x, y = y, x
        distance *= 2
    return x


class SimHash:
    """Signs of structured random projections: three rounds of (random signs, Walsh-Hadamard)."""

    def __init__(self, spec: model_pb2.HashSpec, dim: int) -> None:
        self.num_tables = int(spec.num_tables)
        self._codes = int(spec.codes_per_table)
        self._dim = dim
        self._width = max(_MIN_WIDTH, 1 << (dim - 1).bit_length())
        family_key = _random.derive_key(spec.seed, _SIMHASH_PART)
        blocks = -(-self._codes * self.num_tables // self._width)
        keys = [_random.derive_key(family_key, block) for block in range(blocks)]
        # [blocks, 3 rounds and the sign of the extra that is 1, width]
        self._signs = np.stack(
            [
                np.stack([_signs(_random.derive_key(key, part), self._width) for part in range(4)])
                for key in keys
            ]
        )

    def hash_queries(self, hidden: F32) -> U32:
        batch = hidden.shape[0]
        padded = np.zeros((self._width, batch), dtype=np.float32)
        padded[: self._dim] = hidden.T
        scale = np.float32(1.0 / self._width)
        bits = []
        for signs in self._signs:
            x = padded
            for round_signs in signs[:3]:
                x = _hadamard(x * round_signs[:, None])
            bits.append(x * scale + signs[3][:, None] >= 0)
        used = np.concatenate(bits)[: self.num_tables * self._codes]
        codes = used.reshape(self.num_tables, self._codes, batch)
        weights = (np.uint32(1) << np.arange(self._codes, dtype=np.uint32))[None, :, None]
        packed = np.where(codes, weights, np.uint32(0)).sum(axis=1, dtype=np.uint32)
        return np.ascontiguousarray(packed.T)


class Dwta:
    """Densified winner-take-all: which of `bin_size` permuted coordinates is largest."""

    def __init__(self, spec: model_pb2.HashSpec, dim: int) -> None:
        self.num_tables = int(spec.num_tables)
        self._codes = int(spec.codes_per_table)
        self._dim = dim
        self._code_bits = int(spec.bin_size).bit_length() - 1
        extended = dim + _EXTRAS
        width = min(int(spec.bin_size), extended)
        bins_per_permutation = extended // width
        bins = self._codes * self.num_tables
        family_key = _random.derive_key(spec.seed, _DWTA_PART)
        permutations_key = _random.derive_key(family_key, 0)
        probe_key = _random.derive_key(family_key, 1)
        fallback_key = _random.derive_key(family_key, 2)
        orders = [
            self._permutation(_random.derive_key(permutations_key, p), extended)
            for p in range(-(-bins // bins_per_permutation))
        ]
        used = bins_per_permutation * width
        self._coordinates = np.concatenate([order[:used] for order in orders])[: bins * width]
        self._coordinates = self._coordinates.reshape(bins, width)
        # For an empty bin: the bins whose winners are borrowed, and the code when all are empty.
        places = np.arange(bins)[:, None] * _MAX_PROBES + np.arange(_MAX_PROBES)
        self._probes = _random.below(_random.counter_bits(probe_key, places), bins).astype(np.int64)
        fallback = _random.counter_bits(fallback_key, np.arange(bins))
        self._fallback = (fallback & np.uint64(spec.bin_size - 1)).astype(np.int64)

    @staticmethod
    def _permutation(key: U64, n: int) -> npt.NDArray[np.int64]:
        # Fisher-Yates from the last place down.
        bits = _random.counter_bits(key, np.arange(n - 1))
        places = _random.below(bits, np.arange(n, 1, -1)).tolist()
        order = list(range(n))
        for i, j in zip(range(n - 1, 0, -1), places):
            order[i], order[j] = order[j], order[i]
        return np.array(order, dtype=np.int64)

    def hash_queries(self, hidden: F32) -> U32:
        batch = hidden.shape[0]
        extended = np.zeros((batch, self._dim + _EXTRAS), dtype=np.float32)
        extended[:, : self._dim] = hidden
        extended[:, self._dim] = 1
        extended[extended == 0] = -np.inf  # zeros are missing entries
        values = extended[:, self._coordinates]  # [B, bins, width]
        winners = values.argmax(axis=2)
        missing = np.isneginf(np.take_along_axis(values, winners[:, :, None], axis=2)[:, :, 0])
        if missing.any():
            samples, bins = np.nonzero(missing)
            probes = self._probes[bins]  # [missing, probes]
            filled = ~missing[samples[:, None], probes]
            first = filled.argmax(axis=1)
            rows = np.arange(len(samples))
            borrowed = winners[samples, probes[rows, first]]
            found = filled[rows, first]
            winners[samples, bins] = np.where(found, borrowed, self._fallback[bins])
        codes = winners.reshape(batch, self.num_tables, self._codes).astype(np.uint32)
        shifts = np.arange(self._codes, dtype=np.uint32) * np.uint32(self._code_bits)
        packed: U32 = (codes << shifts).sum(axis=2, dtype=np.uint32)
        return packed
