"""What a trainer tells the person before the terminal, on stderr."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


class Progress:
    """A bar, where tqdm is installed, and lines between; nothing unless it is `shown`."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown
        self._bar: Any = None

    @contextlib.contextmanager
    def bar(self, total: int) -> Iterator[None]:
        """Shows a bar of so many samples inside the `with`."""
        if self._shown:
            with contextlib.suppress(ImportError):
                from tqdm.auto import tqdm

                self._bar = tqdm(total=total, unit=" samples", unit_scale=True, dynamic_ncols=True)
        try:
            yield
        finally:
            bar, self._bar = self._bar, None
            if bar is not None:
                bar.close()

    def advance(self, samples: int, place: str, loss: float) -> None:
        if self._bar is None:
            return
        self._bar.set_description(place, refresh=False)
        self._bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
        self._bar.update(samples)

    def say(self, message: str) -> None:
        if not self._shown:
            return
        if self._bar is not None:
            self._bar.write(message, file=sys.stderr)
        else:
            print(message, file=sys.stderr, flush=True)
