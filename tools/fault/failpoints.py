"""The failpoints of the programs (core/system/failpoint.h): how and when each is reached."""

from __future__ import annotations

import dataclasses
import pathlib
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from kill_schedule import SHARD

_MARK = re.compile(rb"dslide-failpoint:([a-z0-9_.]+)\0")
_MACRO = re.compile(r"\bDSLIDE_FAILPOINT\(\"([a-z0-9_.]+)\"\)")
ROOT = pathlib.Path(__file__).resolve().parents[2]

# What makes a process get to a point. By name, and the first that matches:
FIRST_START = "first start"  # where there is no state yet
STOP = "stop"  # SIGTERM
START_AFTER_STOP = "start after a stop"
REPLAY = "start with updates to apply again"
CHECKPOINT = "checkpoint"  # dslide checkpoint create
RESTORE = "restore"  # dslide checkpoint restore, or a shard that came back without its rows
REGISTRATION = "registration"  # of a model at the coordinator, or of a shard without its rows
LOAD = "load"  # updates, and starts
_WAYS = (
    (r"shard\.state\.", FIRST_START),
    (r"shard\.(checkpoint\.|stop\.rows_written|image\.forced)", STOP),
    (r"shard\.stop\.", START_AFTER_STOP),
    (r"shard\.restore\.", REPLAY),
    (r"shard\.(cut|part)\.|coordinator\.(cut|manifest)\.", CHECKPOINT),
    (r"(shard|coordinator)\.rollback\.", RESTORE),
    (r"coordinator\.catalog\.", REGISTRATION),
)
# Reached for each update: dying there the hundredth time is another story than the first time.
_FREQUENT = re.compile(
    r"shard\.(log\.(appended|syncing|synced|marked)|apply|ack|restore\.replaying)")
# Reached again and again in one life, but not so often.
_REPEATED = re.compile(r"shard\.(image\.(?!forced)|log\.(first_marked|mark_synced|trim))")
# Only without a command log there are checkpoints at a stop.
_ONLY_CHECKPOINT = re.compile(r"shard\.(checkpoint|stop)\.")
# Of cluster checkpoints and the coordinator's catalogue, which both modes have.
_BOTH_MODES = (CHECKPOINT, RESTORE, REGISTRATION)


@dataclasses.dataclass(frozen=True)
class Point:
    """A failpoint of one program in a cluster of one durability mode."""

    name: str
    program: str  # "shard" or "coordinator"
    mode: str

    @property
    def way(self) -> str:
        if self.program == "coordinator" and self.name.startswith("files."):
            return REGISTRATION
        return next((way for prefix, way in _WAYS if re.match(prefix, self.name)), LOAD)

    @property
    def latest(self) -> int:
        """The last occurrence in one life that can be counted on."""
        if _FREQUENT.match(self.name):
            return 200
        return 3 if _REPEATED.match(self.name) else 1

    def __str__(self) -> str:
        return f"{self.name} of a {self.program} in mode {self.mode}"


def of_program(path: pathlib.Path) -> set[str]:
    """The names in a program; none where they were not compiled in."""
    return {name.decode() for name in _MARK.findall(pathlib.Path(path).read_bytes())}


def of_sources(folders: Sequence[str] = ("core", "services")) -> set[str]:
    """The names that the sources use."""
    return {name for folder in folders for path in (ROOT / folder).rglob("*.cc")
            for name in _MACRO.findall(path.read_text(encoding="utf-8"))}


def _modes(name: str, way: str) -> tuple[str, ...]:
    if _ONLY_CHECKPOINT.match(name):
        return ("checkpoint",)
    return ("log", "checkpoint") if way in _BOTH_MODES else ("log",)


def points(bin_dir: pathlib.Path) -> list[Point]:
    """Every Point of the programs there, in a fixed order."""
    found = []
    for program in ("shard", "coordinator"):
        for name in sorted(of_program(pathlib.Path(bin_dir) / f"dslide-{program}")):
            way = Point(name, program, "log").way
            found += [Point(name, program, mode) for mode in _modes(name, way)]
    return found


# --- strikes: a pure function of the seed --------------------------------------------------------

# Strikes of one cluster: then another one begins, and is judged.
STRIKES_OF_A_CLUSTER = 10


@dataclasses.dataclass(frozen=True)
class Strike:
    """A failpoint, and at which of its occurrences it strikes."""

    point: Point
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
            if point.way == RESTORE and point.program == SHARD:
                strikes.append(Strike(point, occurrence, coordinator_too=True))
    return strikes


def clusters_for(strikes: Sequence[Strike]) -> Iterator[list[Strike]]:
    """The strikes in portions that one cluster can take: of one mode, restores apart."""
    groups: dict[Any, list[Strike]] = {}
    for strike in strikes:
        point = strike.point
        key = (point.mode, point.way == RESTORE,
               # A cluster has only one first start.
               len(groups) if point.way == FIRST_START else None)
        groups.setdefault(key, []).append(strike)
    for group in groups.values():
        for at in range(0, len(group), STRIKES_OF_A_CLUSTER):
            yield group[at:at + STRIKES_OF_A_CLUSTER]


def sample(points: Sequence[Point], count: int, seed: int) -> list[Point]:
    """Some of the points, by chance; all of them when there are no more than that."""
    chance = random.Random(f"sample/{seed}")
    return list(points) if len(points) <= count else sorted(chance.sample(points, count), key=str)
