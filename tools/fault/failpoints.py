"""The failpoints of the programs (core/system/failpoint.h), and how each is reached."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Sequence

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
