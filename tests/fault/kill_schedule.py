"""Who is killed when: a pure function of the seed."""

import dataclasses
import random

SHARD, TRAINER, CLIENT, COORDINATOR = "shard", "trainer", "client", "coordinator"
KINDS = (SHARD, TRAINER, CLIENT, COORDINATOR)

# Half of the kills come soon after the one before, when something is likely to recover; the others
# after a while, when work is under way.
_EARLY_SECONDS = (0.0, 0.3)
_LATE_SECONDS = (0.4, 1.6)
# How long the victim stays away.
_AWAY_SECONDS = (0.0, 0.4)


@dataclasses.dataclass(frozen=True)
class Kill:
    """`pause` seconds after the kill before, `victim` (its number among its kind) is killed, and
    started again `away` seconds later."""

    pause: float
    kind: str
    victim: int
    away: float


def schedule(seed, kills, members):
    """[Kill]: `kills` {kind: how many} in a random order, among `members` {kind: how many there are}.

    ValueError when there is nobody of a kind that is to be killed.
    """
    source = random.Random(f"{seed}/kills")
    kinds = [kind for kind in KINDS for _ in range(kills.get(kind, 0))]
    source.shuffle(kinds)
    planned = []
    for kind in kinds:
        if members.get(kind, 0) < 1:
            raise ValueError(f"{kills[kind]} kills of {kind}, but there is none")
        pause = source.uniform(*source.choice((_EARLY_SECONDS, _LATE_SECONDS)))
        planned.append(Kill(pause, kind, source.randrange(members[kind]),
                            source.uniform(*_AWAY_SECONDS)))
    return planned
