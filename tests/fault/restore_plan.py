"""What befalls a cluster between two of its restores: a pure function of the seed."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from typing import Any

from kill_schedule import COORDINATOR, KILL, PAUSE, SHARD, TRAINER

# The ways back: a person's command; or a shard dies, and without a log the cluster goes back alone.
COMMAND, CRASH = "command", "crash"
# Every third cluster has a command log.
MODES = ("checkpoint", "log", "checkpoint")
# A cluster is started anew after so many: with other ports, and the counts begin at 0.
RESTORES_OF_A_CLUSTER = 10

# So long after the call that takes a checkpoint begins (before it: the victim is down when it
# begins). Trainers are held in the first milliseconds; then parts are written.
_LEAD_SECONDS = (-0.01, 0.05)
_AWAY_SECONDS = (0.0, 0.3)
# Some shorter than the time that trainers are given for their steps, some longer.
_PAUSE_SECONDS = (0.1, 1.6)
_STEPS_SECONDS = (0.02, 0.3)
# What trainers are given for their steps; and how long after that they have been given up, and the
# checkpoint is probably not committed.
BARRIER_SECONDS = 1
_GIVEN_UP_SECONDS = (0.1, 0.6)
# How often each befalls somebody.
_DEEDS = {(TRAINER, KILL): 3, (TRAINER, PAUSE): 3, (SHARD, KILL): 2, (SHARD, PAUSE): 1,
          (COORDINATOR, KILL): 2, (COORDINATOR, PAUSE): 1}
# How many at one checkpoint. Two at once are where one of them was to clean up after the other.
_STRIKES: dict[Any, int] = {0: 30, 1: 35, 2: 15, "torn": 20}


@dataclasses.dataclass(frozen=True)
class Strike:
    """`deed` befalls a victim (its number among its kind) `lead` seconds into a checkpoint; it goes
    on `away` seconds later."""

    kind: str
    deed: str
    victim: int
    lead: float
    away: float


@dataclasses.dataclass(frozen=True)
class Round:
    """Steps, checkpoints with steps between, and a restore.

    steps    seconds before each checkpoint, and before the restore
    strikes  by number of the checkpoint
    way      COMMAND or CRASH, then of shard `crashed`; with a log, the crash follows the command
    back     of the newest checkpoints, so many are passed over by the command
    """

    steps: tuple[float, ...]
    strikes: dict[int, tuple[Strike, ...]]
    way: str
    crashed: int
    back: int

    @property
    def checkpoints(self) -> int:
        return len(self.steps) - 1


def plan(seed: object, count: int, shards: int, tracers: int) -> list[Round]:
    """[Round] for one cluster."""
    source = random.Random(f"{seed}/restores")
    members = {SHARD: shards, TRAINER: tracers, COORDINATOR: 1}
    return [_round(source, members) for _ in range(count)]


def _round(source: random.Random, members: Mapping[str, int]) -> Round:
    checkpoints = source.choice((1, 1, 1, 2, 2, 3))
    many = source.choices(list(_STRIKES), list(_STRIKES.values()))[0]
    strikes = _torn(source, members) if many == "torn" else _strikes(source, members, many)
    at = source.randrange(checkpoints)
    return Round(tuple(source.uniform(*_STEPS_SECONDS) for _ in range(checkpoints + 1)),
                 {at: strikes} if strikes else {}, source.choice((COMMAND, CRASH)),
                 source.randrange(members[SHARD]), source.choice((0, 0, 0, 1, 2)))


def _strikes(source: random.Random, members: Mapping[str, int], many: int) -> tuple[Strike, ...]:
    deeds = source.sample(list(_DEEDS), many, counts=list(_DEEDS.values()))
    strikes = []
    # Nobody is to be killed again before he is back.
    for kind, deed in dict.fromkeys(deeds):
        away = source.uniform(*(_PAUSE_SECONDS if deed == PAUSE else _AWAY_SECONDS))
        strikes.append(Strike(kind, deed, source.randrange(members[kind]),
                              source.uniform(*_LEAD_SECONDS), away))
    return tuple(sorted(strikes, key=lambda strike: strike.lead))


def _torn(source: random.Random, members: Mapping[str, int]) -> tuple[Strike, ...]:
    """A trainer dies while a shard does not hear it: its last steps are on the other shards only.

    Half of the time the coordinator dies when it has given the trainer up.
    """
    lead = source.uniform(-0.03, 0.0)
    victim = source.randrange(members[SHARD])
    away = source.uniform(0.05, 0.3)
    strikes = (Strike(SHARD, PAUSE, victim, lead, away),
               Strike(TRAINER, KILL, source.randrange(members[TRAINER]),
                      lead + source.uniform(0.005, 0.03), 0.0))
    if source.random() < 0.5:
        return strikes
    return (*strikes, Strike(COORDINATOR, KILL, 0,
                             BARRIER_SECONDS + source.uniform(*_GIVEN_UP_SECONDS), 0.0))


def portions(restores: int) -> list[tuple[str, int]]:
    """[(mode, restores of it)] of the clusters for so many in all, of two modes if may be."""
    each = min(RESTORES_OF_A_CLUSTER, -(-restores // 2))
    parts: list[tuple[str, int]] = []
    while restores > 0:
        parts.append((MODES[len(parts) % len(MODES)], min(each, restores)))
        restores -= each
    return parts
