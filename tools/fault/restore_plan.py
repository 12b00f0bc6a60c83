"""What befalls a cluster between two of its restores: a pure function of the seed."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

from kill_schedule import COORDINATOR, KILL, PAUSE, SHARD, TRAINER

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
# What trainers are given for their steps; and how long after that they have been evicted, and the
# checkpoint is probably not committed.
BARRIER_SECONDS = 1
_EVICTED_SECONDS = (0.1, 0.6)
# How often each befalls somebody, and how many do at one checkpoint. Two at once are where one of
# them was to clean up after the other.
_DEEDS = {(TRAINER, KILL): 3, (TRAINER, PAUSE): 3, (SHARD, KILL): 2, (SHARD, PAUSE): 1,
          (COORDINATOR, KILL): 2, (COORDINATOR, PAUSE): 1}
_STRIKES: dict[int | str, int] = {0: 30, 1: 35, 2: 15, "torn": 20}


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
    struck   number of the checkpoint that `strikes` befall
    crashed  number of the shard that dies, so that the cluster restores itself where shards have
             no log; None: a command restores it
    back     of the newest checkpoints, so many are passed over by the command
    """

    steps: tuple[float, ...]
    struck: int
    strikes: tuple[Strike, ...]
    crashed: int | None
    back: int


def plan(seed: object, count: int, shards: int, tracers: int) -> Iterator[Round]:
    """The rounds of one cluster."""
    source = random.Random(f"{seed}/restores")
    members = {SHARD: shards, TRAINER: tracers, COORDINATOR: 1}
    for _ in range(count):
        checkpoints = source.choice((1, 1, 1, 2, 2, 3))
        many = source.choices(list(_STRIKES), list(_STRIKES.values()))[0]
        strikes = _strikes(source, members, many) if isinstance(many, int) else \
            _torn(source, members)
        yield Round(tuple(source.uniform(*_STEPS_SECONDS) for _ in range(checkpoints + 1)),
                    source.randrange(checkpoints), tuple(strikes),
                    source.choice((None, source.randrange(shards))),
                    source.choice((0, 0, 0, 1, 2)))


def _strikes(source: random.Random, members: dict[str, int], many: int) -> Iterator[Strike]:
    deeds = source.sample(list(_DEEDS), many, counts=list(_DEEDS.values()))
    # Nobody is to be killed again before he is back.
    for kind, deed in dict.fromkeys(deeds):
        away = source.uniform(*(_PAUSE_SECONDS if deed == PAUSE else _AWAY_SECONDS))
        yield Strike(kind, deed, source.randrange(members[kind]), source.uniform(*_LEAD_SECONDS),
                     away)


def _torn(source: random.Random, members: dict[str, int]) -> Iterator[Strike]:
    """A trainer dies while a shard does not hear it: its last steps are on the other shards only.

    Half of the time the coordinator dies when it has evicted the trainer.
    """
    lead = source.uniform(-0.03, 0.0)
    yield Strike(SHARD, PAUSE, source.randrange(members[SHARD]), lead, source.uniform(0.05, 0.3))
    yield Strike(TRAINER, KILL, source.randrange(members[TRAINER]),
                 lead + source.uniform(0.005, 0.03), 0.0)
    if source.random() < 0.5:
        yield Strike(COORDINATOR, KILL, 0, BARRIER_SECONDS + source.uniform(*_EVICTED_SECONDS), 0.0)


def portions(restores: int) -> Iterator[tuple[str, int]]:
    """(mode, restores of it) of the clusters for so many in all, of two modes if may be."""
    each, number = min(RESTORES_OF_A_CLUSTER, -(-restores // 2)), 0
    while restores > 0:
        yield MODES[number % len(MODES)], min(each, restores)
        restores, number = restores - each, number + 1
