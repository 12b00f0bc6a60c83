"""The order in which training goes through points, the same for all who ask for it."""

from collections.abc import Iterator

import numpy


def batches(points: int, size: int, seed: int) -> Iterator[numpy.ndarray]:
    """Full batches without an end; each epoch in an order of its own."""
    random = numpy.random.default_rng(seed)
    left = numpy.empty(0, numpy.int64)
    while True:
        while len(left) < size:
            left = numpy.concatenate([left, random.permutation(points)])
        yield left[:size]
        left = left[size:]
