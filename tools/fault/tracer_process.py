"""Tracers (tests/tracer) as processes that may be killed and begin again."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import processes
from fault_cluster import Member
from tracer_cuts import Life

PROGRAM = "dslide_tracer"
# Its cluster was restored, or has closed it.
ROLLED_BACK_EXIT = 10
# After some steps in a row: as many are in flight as may be, and others get on, too.
_PAUSE_MS = 3


class TracerProcess(Member):
    """A dslide_tracer over all of its lives, and what it says."""

    def __init__(self, name: str, coordinator: str, in_flight: int,
                 directory: pathlib.Path) -> None:
        super().__init__(name, PROGRAM, [
            "--cluster", coordinator, "--model", name, "--in-flight", in_flight, "--pause-ms",
            _PAUSE_MS, "--timeout-seconds", processes.PATIENCE_SECONDS], directory)
        self._in_flight = in_flight
        self.life: Life | None = None

    def begun(self) -> Life:
        """Its Life, once it has started."""
        self.process.wait_for_stdout(r"started")
        told = processes.wait_until(lambda: self._last("started"), lambda: "a whole line",
                                    alive=[self.process])
        self.life = Life(self.name, told["client"], self._in_flight, tuple(told["counts"]))
        return self.life

    def _last(self, event: str) -> Any:
        """The last whole line that it wrote about such an event."""
        lines = map(json.loads, reversed(self.process.stdout.split("\n")[:-1]))
        return next((told for told in lines if told["event"] == event), None)

    def finished(self) -> int:
        """Steps that were confirmed, as far as it has said."""
        told = self._last("progress")
        return int(told["finished"]) if told else 0

    def sent(self) -> int | None:
        """Steps that it sent in all; None when it was killed and could not say."""
        told = self._last("ended")
        return int(told["sent"]) if told else None
