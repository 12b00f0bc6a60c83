"""The chunks of a job that a trainer has on lease, and what it has done of each."""

from __future__ import annotations

from dataclasses import dataclass

from dslide.v1 import coordinator_pb2


@dataclass
class _Chunk:
    submitted: int = 0
    finished: int = 0
    complete: bool = False
    samples: int = 0
    loss_sum: float = 0.0


class Chunks:
    """By the numbers of their leases. What is not here any more is not reported."""

    def __init__(self) -> None:
        self._open: dict[int, _Chunk] = {}

    def begin(self, lease: int) -> None:
        self._open[lease] = _Chunk()

    def submit(self, lease: int) -> None:
        """A step of the chunk is on its way."""
        self._open[lease].submitted += 1

    def steps_under_way(self) -> int:
        return sum(chunk.submitted - chunk.finished for chunk in self._open.values())

    def complete(self, lease: int) -> coordinator_pb2.WorkReport | None:
        """All steps are on their way; the report if all are back."""
        self._open[lease].complete = True
        return self._report_of(lease)

    def finish(
        self, lease: int, samples: int, loss_sum: float
    ) -> coordinator_pb2.WorkReport | None:
        """A step is back; the report if it was the last one."""
        chunk = self._open.get(lease)
        if chunk is None:
            return None
        chunk.finished += 1
        chunk.samples += samples
        chunk.loss_sum += loss_sum
        return self._report_of(lease)

    def clear(self) -> None:
        self._open.clear()

    def _report_of(self, lease: int) -> coordinator_pb2.WorkReport | None:
        chunk = self._open[lease]
        if not chunk.complete or chunk.finished < chunk.submitted:
            return None
        del self._open[lease]
        return coordinator_pb2.WorkReport(
            lease_id=lease, loss_sum=chunk.loss_sum, samples=chunk.samples
        )
