"""A client beside the trainers that only counts, and knows of every increment what it was told."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from cluster import Cluster, ClusterError, wait_until
from oracle import Event, HistoryTail

_PROGRAM = pathlib.Path(__file__).with_name("count_increments.py")


def first_answer(events: Sequence[Event], shard: int, since: int) -> int | None:
    """When an increment was acknowledged for the first time that was sent since then."""
    sent = {(event["client"], event["sequence"]) for event in events
            if event["event"] == "invoke" and event["shard"] == shard and event["t"] > since}
    return next((event["t"] for event in events
                 if event["event"] == "applied" and event["shard"] == shard
                 and event["t"] > since and (event["client"], event["sequence"]) in sent), None)


class Increments:
    """On every shard, from now to verdict(). Times are those of time.monotonic_ns()."""

    def __init__(self, cluster: Cluster, coordinator: str, shards: Sequence[str]) -> None:
        folder = cluster.work / "increments"
        folder.mkdir()
        self._shards = range(len(shards))
        self._tail = HistoryTail(folder)
        self._events: list[Event] = []
        self._log = cluster.work / "log" / "increments.log"
        words = [word for shard in shards for word in ("--shard", shard)]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                cluster.resolving_command(sys.executable, _PROGRAM, "--coordinator", coordinator,
                                          *words, "--folder", folder),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True)
        self.wait_for_answers(time.monotonic_ns())

    def _look(self) -> None:
        if self._process.poll() is not None:
            raise ClusterError(f"the increment client has ended: {self._log}")
        self._events += self._tail.new("invoke", "applied", "refused")

    def wait_for_answers(self, since: int) -> float:
        """Until every shard has acknowledged one that was sent since then; seconds from then."""
        times: list[int | None] = []

        def answered() -> bool:
            self._look()
            times[:] = [first_answer(self._events, shard, since) for shard in self._shards]
            return None not in times

        wait_until(answered, "every shard acknowledges increments")
        return (max(time for time in times if time is not None) - since) / 1e9

    def was_refused(self, shard: int, reason: str, since: int) -> bool:
        self._look()
        return any(event["event"] == "refused" and event["shard"] == shard
                   and event["reason"] == reason and event["t"] > since
                   for event in self._events)

    def verdict(self) -> dict[str, Any]:
        """Ends it; an error when anything acknowledged is lost, or anything is there twice."""
        self._look()
        self._process.terminate()
        said, _ = self._process.communicate(timeout=300)
        if self._process.returncode != 0:
            raise ClusterError(f"the increment client failed: {self._log}")
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        if found["violations"]:
            raise ClusterError(f"increments were lost, or are there twice: {found}")
        return found
