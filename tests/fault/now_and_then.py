"""Lines about a long work, so few that somebody reads them."""

from __future__ import annotations

import time
from collections.abc import Callable


class NowAndThen:
    """Passes a line on to `say` when the last one was passed on `seconds` ago or more.

    The first line is one of those that are kept back: who begins a work says so at once anyway.
    """

    def __init__(self, say: Callable[[str], object], seconds: float = 30.0,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._seconds, self._clock = say, seconds, clock
        self._last = clock()

    def __call__(self, line: str) -> None:
        now = self._clock()
        if now - self._last >= self._seconds:
            self._last = now
            self._say(line)
