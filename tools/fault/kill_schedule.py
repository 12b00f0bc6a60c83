"""Who is killed, stopped, paused or cut off when: a pure function of the seed."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping

SHARD, TRAINER, CLIENT, COORDINATOR = "shard", "trainer", "client", "coordinator"
# What is done to them. Only servers are stopped; only shards are paused and, where there are
# proxies, cut off.
KILL, STOP, PAUSE, PARTITION = "kill", "stop", "pause", "partition"
DEEDS = ((SHARD, KILL), (TRAINER, KILL), (CLIENT, KILL), (COORDINATOR, KILL), (SHARD, STOP),
         (SHARD, PAUSE), (SHARD, PARTITION), (COORDINATOR, STOP))

# Half of the kills come soon after the one before, when something is likely to recover; the others
# after a while, when work is under way.
EARLY_SECONDS = (0.0, 0.3)
_LATE_SECONDS = (0.4, 1.6)
# How long the victim stays away, and how long it is paused or cut off.
_AWAY_SECONDS = (0.0, 0.4)
_PAUSE_SECONDS = (0.2, 3.0)


@dataclasses.dataclass(frozen=True)
class Strike:
    """`pause` seconds after the strike before, `deed` befalls a victim (its number among its kind);
    it is killed by SIGKILL, stopped by SIGTERM, paused by SIGSTOP, or what is sent to it or by it
    (`directions`) goes nowhere; and goes on `away` seconds later."""

    pause: float
    kind: str
    deed: str
    victim: int
    away: float
    directions: tuple[str, ...] = ()


def schedule(seed: object, strikes: Mapping[tuple[str, str], int],
             members: Mapping[str, int]) -> list[Strike]:
    """[Strike] in a random order.

    strikes  {(kind, deed): how many}, as in DEEDS
    members  {kind: how many there are}

    ValueError when there is nobody of a kind that is to be struck.
    """
    source = random.Random(f"{seed}/strikes")
    deeds = [deed for deed in DEEDS for _ in range(strikes.get(deed, 0))]
    source.shuffle(deeds)
    planned = []
    for kind, deed in deeds:
        if members.get(kind, 0) < 1:
            raise ValueError(f"a {kind} is to be struck ({deed}), but there is none")
        pause = source.uniform(*source.choice((EARLY_SECONDS, _LATE_SECONDS)))
        away = source.uniform(*(_PAUSE_SECONDS if deed in (PAUSE, PARTITION) else _AWAY_SECONDS))
        directions = source.choice((("up",), ("down",), ("up", "down")))
        planned.append(Strike(pause, kind, deed, source.randrange(members[kind]), away,
                              directions if deed == PARTITION else ()))
    return planned
