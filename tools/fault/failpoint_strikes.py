"""Which failpoint is struck when, and on which cluster: a pure function of the seed."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any

import failpoints
from failpoints import Point
from kill_schedule import SHARD

# Strikes of one cluster: then another one begins, and is judged.
STRIKES_OF_A_CLUSTER = 10


@dataclasses.dataclass(frozen=True)
class Strike:
    """A failpoint, and at which of its occurrences it strikes."""

    point: failpoints.Point
    occurrence: int = 1
    # Of a shard at a restore: the coordinator and the operator's command are killed right after it.
    coordinator_too: bool = False

    def __str__(self) -> str:
        return (f"{self.point}, occurrence {self.occurrence}"
                f"{', the coordinator too' if self.coordinator_too else ''}")


def strikes_for(points: Sequence[Point], runs: int, seed: int) -> list[Strike]:
    """`runs` strikes at each point: the first occurrence, then others by chance.

    Twice as many at a shard's part of a restore: with and without the coordinator.
    """
    chance = random.Random(f"failpoints/{seed}")
    strikes = []
    for run in range(runs):
        for point in points:
            occurrence = 1 if run == 0 else chance.randint(1, point.latest)
            strikes.append(Strike(point, occurrence))
            if point.way == failpoints.RESTORE and point.program == SHARD:
                strikes.append(Strike(point, occurrence, coordinator_too=True))
    return strikes


def clusters_for(strikes: Sequence[Strike]) -> Iterator[list[Strike]]:
    """The strikes in portions that one cluster can take: of one mode, restores apart."""
    groups: dict[Any, list[Strike]] = {}
    for strike in strikes:
        point = strike.point
        key = (point.mode, point.way == failpoints.RESTORE,
               # A cluster has only one first start.
               len(groups) if point.way == failpoints.FIRST_START else None)
        groups.setdefault(key, []).append(strike)
    for group in groups.values():
        for at in range(0, len(group), STRIKES_OF_A_CLUSTER):
            yield group[at:at + STRIKES_OF_A_CLUSTER]


def sample(points: Sequence[Point], count: int, seed: int) -> list[Point]:
    """Some of the points, by chance; all of them when there are no more than that."""
    chance = random.Random(f"sample/{seed}")
    return list(points) if len(points) <= count else sorted(chance.sample(points, count), key=str)
