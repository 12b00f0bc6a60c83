"""What a restored cluster must show of its tracers: the judgement over rows, and what it needs.

A tracer (tests/tracer) adds 1 to every number of its rows in each of its steps, on all shards. So
the rows of a shard say how many of its steps that shard has, a checkpoint's manifest says how many
are in the cut, and all of them have to be the same number.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Sequence

_MANIFEST = re.compile(r"MANIFEST-(\d+)")


@dataclasses.dataclass(frozen=True)
class Life:
    """One process of a tracer: a client of its own."""

    tracer: str
    client: str  # in hexadecimal
    in_flight: int
    counts: tuple[int, ...]  # what each shard's rows showed when it began


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What is in a committed checkpoint, as the coordinator's file says."""

    checkpoint_id: int
    steps: dict[str, int]  # {client: the last step that is in it}
    evicted: frozenset[str]  # clients

    @staticmethod
    def parse(text: str) -> Manifest:
        # A line with the checksum follows, which the servers verify.
        fields, _ = json.JSONDecoder().raw_decode(text)
        steps = {at["client"]: at["step"] for at in fields["steps"]}
        return Manifest(fields["checkpoint_id"], steps, frozenset(fields["evicted"]))


def read_manifests(directory: pathlib.Path) -> dict[int, Manifest]:
    """{checkpoint_id: Manifest} of a coordinator's data directory."""
    found = {}
    for path in (directory / "checkpoints").glob("MANIFEST-*"):
        if _MANIFEST.fullmatch(path.name):
            manifest = Manifest.parse(path.read_text(encoding="utf-8"))
            found[manifest.checkpoint_id] = manifest
    return found


@dataclasses.dataclass(frozen=True)
class Cut:
    """A checkpoint, and what was known of its tracers: {tracer: ...} each."""

    manifest: Manifest
    lives: dict[str, Life]
    finished: dict[str, int]  # steps that were confirmed before the checkpoint began
    listed: frozenset[str]  # clients that a committed manifest, or this one, says were evicted


@dataclasses.dataclass
class Verdict:
    """counts: what each shard shows."""

    tracer: str
    counts: tuple[int, ...] = ()
    problems: list[str] = dataclasses.field(default_factory=list)


def judge(cut: Cut, tracer: str, rows: Sequence[Sequence[float]],
          sent: int | None = None) -> Verdict:
    """The Verdict on one tracer after a restore of `cut`.

    rows  [all numbers of its rows on a shard] by shard
    sent  steps that its life of then sent in all; None: nobody knows, it was killed
    """
    life, manifest = cut.lives[tracer], cut.manifest
    verdict = Verdict(tracer)

    def wrong(what: str) -> None:
        verdict.problems.append(f"checkpoint {manifest.checkpoint_id}, {tracer} "
                                f"({life.client[:8]}, {life.in_flight} in flight): {what}")

    for shard, numbers in enumerate(rows):
        if len(set(numbers)) != 1 or numbers[0] != int(numbers[0]):
            wrong(f"rows of shard {shard} differ from each other: {sorted(set(numbers))[:5]}")
            return verdict
    verdict.counts = tuple(int(numbers[0]) for numbers in rows)
    steps = [count - start for count, start in zip(verdict.counts, life.counts)]
    apart = max(steps) - min(steps)  # which is allowed for clients that were evicted
    shown = f"shards show {steps} steps after {list(life.counts)}"
    if life.client in manifest.steps:
        if set(steps) != {manifest.steps[life.client]}:
            wrong(f"{shown}, the manifest says {manifest.steps[life.client]}")
    elif apart and life.client not in cut.listed:
        wrong(f"{shown}, and no manifest lists it as evicted")
    elif apart > life.in_flight:
        wrong(f"{shown}, more than it had in flight")
    if min(steps) < cut.finished[tracer]:
        wrong(f"{shown}, {cut.finished[tracer]} were confirmed before the checkpoint began")
    if min(steps) < 0 or sent is not None and max(steps) > sent:
        wrong(f"{shown}, and it sent {sent}")
    return verdict
