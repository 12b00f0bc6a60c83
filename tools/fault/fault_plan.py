"""Which fault strikes where: a pure function of the seed, so that a failure can be repeated.

A position is a place in one direction of one proxied connection: a count of bytes, or of HTTP/2
frames of one kind. It never depends on how the kernel cut the stream into reads, nor on time, so
equal byte streams and equal seeds give equal faults.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

UP, DOWN = "up", "down"  # towards the server; towards the client
DIRECTIONS = (UP, DOWN)

# What a rule can do, and whether its places are counted in bytes or in frames.
BYTE_KINDS = ("cut", "stall")
FRAME_KINDS = ("duplicate", "lose_reply")
KINDS = (*BYTE_KINDS, *FRAME_KINDS, "delay")

# Delays are drawn once for each block of so many bytes of a stream.
DELAY_BLOCK_BYTES = 16384


@dataclasses.dataclass(frozen=True)
class Rule:
    """One fault, and where it strikes.

    kind         one of KINDS
    direction    UP, DOWN or "both"
    at           the exact position; None: random positions, `every` apart on average
    every        mean distance of random positions, in bytes, or in frames for FRAME_KINDS
    times        how often at most on one connection and direction; 0: no bound
    seconds      delay: least delay; stall: how long
    jitter       delay: up to so many seconds more, uniform
    frame        FRAME_KINDS: name of the frames that count, as in fault_proxy.FRAME_NAMES
    """

    kind: str
    direction: str = "both"
    at: int | None = None
    every: float = 0.0
    times: int = 1
    seconds: float = 0.0
    jitter: float = 0.0
    frame: str = "DATA"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r}; there are: {', '.join(KINDS)}")
        if self.direction not in (UP, DOWN, "both"):
            raise ValueError(f"direction {self.direction!r}; there are: up, down, both")
        if self.kind != "delay" and (self.at is None) == (self.every <= 0):
            raise ValueError(f"{self.kind}: give either a position (at) or a mean distance (every)")

    def applies(self, direction: str) -> bool:
        return self.direction in ("both", direction)


class Places:
    """The positions of one rule on one direction of one connection, ascending."""

    def __init__(self, rule: Rule, random_source: random.Random) -> None:
        self._rule = rule
        self._random = random_source
        self._left = rule.times if rule.times > 0 else None
        self.next: int | None = self._first()

    def _first(self) -> int:
        return self._rule.at if self._rule.at is not None else self._gap()

    def _gap(self) -> int:
        return int(self._random.expovariate(1.0 / self._rule.every))

    def advance(self) -> None:
        """Moves on to the next position; `next` is None after the last one."""
        if self._left is not None:
            self._left -= 1
        if self._left == 0 or self._rule.at is not None:
            self.next = None
        elif self.next is not None:
            self.next += 1 + self._gap()


class StreamPlan:
    """What is planned for one direction of one connection."""

    def __init__(self, seed: object, rules: Sequence[Rule], connection: int,
                 direction: str) -> None:
        self._name = f"{seed}/{connection}/{direction}"
        mine = [(number, rule) for number, rule in enumerate(rules)
                if rule.applies(direction)]
        self.delays = [rule for _, rule in mine if rule.kind == "delay"]
        self._bytes = self._places(mine, BYTE_KINDS)
        self._frames = self._places(mine, FRAME_KINDS)

    def _places(self, rules: Sequence[tuple[int, Rule]],
                kinds: Sequence[str]) -> list[tuple[Rule, Places]]:
        return [(rule, Places(rule, random.Random(f"{self._name}/{number}")))
                for number, rule in rules if rule.kind in kinds]

    @property
    def frame_aware(self) -> bool:
        return bool(self._frames)

    def next_byte_fault(self, end: int) -> tuple[Rule, Places] | None:
        """(rule, places) of the first fault below byte `end`; None when there is none."""
        due = [(places.next, number, rule, places)
               for number, (rule, places) in enumerate(self._bytes)
               if places.next is not None and places.next < end]
        return min(due)[2:] if due else None

    def frame_faults(self, name: str, index: int) -> list[tuple[Rule, Places]]:
        """[(rule, places)] that strike frame number `index` of that name."""
        return [(rule, places) for rule, places in self._frames
                if rule.frame == name and places.next == index]

    def delay_of_block(self, rule: Rule, block: int) -> float:
        """Seconds that block number `block` is delayed by a delay rule."""
        drawn = random.Random(f"{self._name}/delay/{block}").random()
        return rule.seconds + rule.jitter * drawn
