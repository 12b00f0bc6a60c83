"""Counter-based random numbers: a value is a pure function of (key, counter).

Equal, bit for bit, to those of the shards and of every other client, so that all trainers of a job
draw the same order of points and the same dropout.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK_32 = np.uint64(0xFFFFFFFF)


def _mix(x: U64) -> U64:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def counter_bits(key: npt.ArrayLike, counter: npt.ArrayLike) -> U64:
    """64 random bits of each (key, counter); the two broadcast against each other."""
    keys = np.asarray(key, dtype=np.uint64)
    counters = np.asarray(counter, dtype=np.uint64)
    with np.errstate(over="ignore"):  # arithmetic is modulo 2^64
        return _mix(_mix(keys + _GOLDEN) ^ (counters * _GOLDEN + keys))


def derive_key(key: npt.ArrayLike, part: npt.ArrayLike) -> U64:
    """A key for a named part of a larger key."""
    return counter_bits(np.asarray(key, dtype=np.uint64) ^ np.uint64(0x6A09E667F3BCC909), part)


def key_of_name(name: str) -> U64:
    """A key of a table's name."""
    key: U64 = np.zeros((), dtype=np.uint64)
    for byte in name.encode():
        key = derive_key(key, byte)
    return key


def uniform(bits: U64) -> npt.NDArray[np.float32]:
    """Numbers in [0, 1) with 24 bits of resolution, of random bits."""
    return (bits >> np.uint64(40)).astype(np.float32) * np.float32(1.0 / 16777216.0)


def below(bits: U64, bound: npt.ArrayLike) -> U64:
    """Integers in [0, bound) of random bits, bound <= 2^32: the upper half of their product."""
    bounds = np.asarray(bound, dtype=np.uint64)
    low = ((bits & _MASK_32) * bounds) >> np.uint64(32)
    return ((bits >> np.uint64(32)) * bounds + low) >> np.uint64(32)


def count_ones(bits: U64) -> npt.NDArray[np.uint8]:
    """How many bits of each word are 1."""
    bytes_ = np.ascontiguousarray(bits).view(np.uint8).reshape(*bits.shape, 8)
    ones: npt.NDArray[np.uint8] = np.unpackbits(bytes_, axis=-1).sum(axis=-1, dtype=np.uint8)
    return ones
