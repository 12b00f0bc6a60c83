"""A process that ends the cluster when its maker was killed before it could."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


class Guard:
    """From its making to dismiss(): when this process ends, however it ends, `end` is called in
    another one."""

    def __init__(self, end: Callable[[], None]) -> None:
        readable, self._writable = os.pipe()
        is_apart, apart = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            self._watch(readable, apart, end)
        os.close(readable)
        os.close(apart)
        os.read(is_apart, 1)  # until then a signal to this group would reach it, too
        os.close(is_apart)

    def _watch(self, readable: int, apart: int, end: Callable[[], None]) -> None:
        """Never returns."""
        status = 1
        try:
            # Signals to a group or from a terminal are not for it.
            os.setsid()
            for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(ending, signal.SIG_IGN)
            os.close(apart)
            os.close(self._writable)
            if not os.read(readable, 1):
                end()
            status = 0
        finally:
            os._exit(status)

    def dismiss(self) -> None:
        os.write(self._writable, b"d")
        os.close(self._writable)
        os.waitpid(self._child, 0)
