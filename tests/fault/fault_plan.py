"""Which fault strikes where: a pure function of the seed, so that a failure can be repeated.

A position is a place in one direction of one proxied connection: a count of bytes, or of HTTP/2
frames of one kind. It never depends on how the kernel cut the stream into reads, nor on time, so
equal byte streams and equal seeds give equal faults.
"""

import dataclasses
import random

UP, DOWN = "up", "down"  # towards the server; towards the client
DIRECTIONS = (UP, DOWN)

# What a rule can do, and whether its places are counted in bytes or in frames.
BYTE_KINDS = ("cut", "half_close", "stall", "flip", "blackhole")
FRAME_KINDS = ("duplicate", "lose_reply")
SHAPING_KINDS = ("delay", "rate")
KINDS = BYTE_KINDS + FRAME_KINDS + SHAPING_KINDS

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
    connections  ordinals of the connections that it is for; None: all
    seconds      delay: least delay; stall: how long
    jitter       delay: up to so many seconds more, uniform
    rate         rate: bytes per second
    frame        FRAME_KINDS: name of the frames that count, as in fault_proxy.FRAME_NAMES
    """

    kind: str
    direction: str = "both"
    at: int = None
    every: float = 0.0
    times: int = 1
    connections: tuple = None
    seconds: float = 0.0
    jitter: float = 0.0
    rate: float = 0.0
    frame: str = "DATA"

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r}; there are: {', '.join(KINDS)}")
        if self.direction not in (UP, DOWN, "both"):
            raise ValueError(f"direction {self.direction!r}; there are: up, down, both")
        shaping = self.kind in SHAPING_KINDS
        if not shaping and (self.at is None) == (self.every <= 0):
            raise ValueError(f"{self.kind}: give either a position (at) or a mean distance (every)")
        if self.kind == "rate" and self.rate <= 0:
            raise ValueError(f"rate: {self.rate} bytes per second, must be above 0")

    def applies(self, connection, direction):
        return (self.direction in ("both", direction)
                and (self.connections is None or connection in self.connections))


class Places:
    """The positions of one rule on one direction of one connection, ascending."""

    def __init__(self, rule, random_source):
        self._rule = rule
        self._random = random_source
        self._left = rule.times if rule.times > 0 else None
        self.next = self._first()

    def _first(self):
        return self._rule.at if self._rule.at is not None else self._gap()

    def _gap(self):
        return int(self._random.expovariate(1.0 / self._rule.every))

    def choose(self, count):
        """A number in [0, count) that belongs to the present position."""
        return self._random.randrange(count)

    def advance(self):
        """Moves on to the next position; `next` is None after the last one."""
        if self._left is not None:
            self._left -= 1
        if self._left == 0 or self._rule.at is not None:
            self.next = None
        else:
            self.next += 1 + self._gap()


class StreamPlan:
    """What is planned for one direction of one connection."""

    def __init__(self, seed, rules, connection, direction):
        self._name = f"{seed}/{connection}/{direction}"
        mine = [(number, rule) for number, rule in enumerate(rules)
                if rule.applies(connection, direction)]
        self.shaping = [rule for _, rule in mine if rule.kind in SHAPING_KINDS]
        self._bytes = self._places(mine, BYTE_KINDS)
        self._frames = self._places(mine, FRAME_KINDS)

    def _places(self, rules, kinds):
        return [(rule, Places(rule, random.Random(f"{self._name}/{number}")))
                for number, rule in rules if rule.kind in kinds]

    @property
    def frame_aware(self):
        return bool(self._frames)

    def next_byte_fault(self, end):
        """(rule, places) of the first fault below byte `end`; None when there is none."""
        due = [(places.next, number, rule, places)
               for number, (rule, places) in enumerate(self._bytes)
               if places.next is not None and places.next < end]
        return min(due)[2:] if due else None

    def frame_faults(self, name, index):
        """[(rule, places)] that strike frame number `index` of that name."""
        return [(rule, places) for rule, places in self._frames
                if rule.frame == name and places.next == index]

    def delay_of_block(self, rule, block):
        """Seconds that block number `block` is delayed by a delay rule."""
        drawn = random.Random(f"{self._name}/delay/{block}").random()
        return rule.seconds + rule.jitter * drawn
