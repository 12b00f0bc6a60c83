"""Stops servers of a working cluster by SIGTERM, again and again, and looks at how they go.

Increment clients and trainers (`dslide train`) work on the cluster meanwhile, as in kill_loop.py.
Every stop must

- make the server say that it is not ready before the first client notices anything: it is started
  with a --drain-delay in which calls must go on;
- keep /livez answering until the end;
- end with exit code 0; how long it takes is reported.

At the end no update that was acknowledged may be lost, in any mode, and none applied twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import kill_loop
import processes
from fault_cluster import Member
from grpc_client import NO_ANSWER
from kill_loop import Result, Settings
from kill_schedule import SHARD
from oracle import Event
from processes import Process, look_at

# Hundreds of looks at the admin page, and some where others keep the processors busy.
DRAIN_DELAY_SECONDS = 2
# Cluster checkpoints hold steps back for a moment: stops have to meet some.
CHECKPOINT_SECONDS = 1
# The looks at the admin page are this far apart.
_LOOK_SECONDS = 0.005
# Last words of a server, after which its admin page may close.
_LAST_WORDS = re.compile(r" (stopped|the last step of stopping failed)\b")


@dataclasses.dataclass
class Drain:
    """One stop; times in ns of the monotonic clock."""

    kind: str
    victim: int
    told: int  # SIGTERM was sent
    code: int | None = None  # None: it did not end
    ended: int = 0
    still_ready: int | None = None  # the last question that /readyz answered with 200 was asked
    not_ready: int | None = None  # /readyz first said so
    dead_pages: int = 0  # answers of /livez that were no 200 while the process lived
    reason: str = ""  # that /readyz gave

    def faults(self) -> Iterator[str]:
        """Lines: what was wrong with this stop by itself."""
        name = f"{self.kind} {self.victim}"
        if self.code != 0:
            yield f"{name}: exit code {self.code}"
        if self.not_ready is None:
            yield f"{name}: never said that it was not ready"
        elif "draining" not in self.reason:
            yield f"{name}: not ready, but for another reason: {self.reason!r}"
        if self.dead_pages:
            yield f"{name}: /livez failed {self.dead_pages} times before the end"

    def events(self, history: list[Event], *kinds: str) -> Iterator[Event]:
        """Those of the stopped shard between the signal and the end."""
        return (event for event in history if self.kind == SHARD and event["event"] in kinds
                and event["shard"] == self.victim and self.told <= event["t"] <= self.ended)


def noticed_early(drains: Sequence[Drain], history: list[Event]) -> list[Drain]:
    """Of stopped shards: those that called themselves ready when a client had been refused.

    Asked later than the client knew, so that it is no matter how far apart the looks were. A call
    that nobody answered in the client's time is nobody's refusal.
    """
    return [drain for drain in drains if drain.still_ready is not None and any(
        event["t"] < drain.still_ready for event in drain.events(history, "refused", "unknown")
        if not event.get("why", "").endswith(NO_ANSWER))]


def served_while_not_ready(drains: Sequence[Drain], history: list[Event]) -> int:
    """Updates that shards applied between "not ready" and the end: what the delay is for."""
    return sum(drain.not_ready is not None and event["t"] >= drain.not_ready
               for drain in drains for event in drain.events(history, "applied"))


def watch_admin_page(drain: Drain, address: str, process: Process) -> None:
    """Looks at a server's admin page until the process has ended, and fills the Drain."""
    while process.running():
        if drain.not_ready is None:
            asked = time.monotonic_ns()
            status, text = look_at(address, "/readyz")
            if status == 200:
                drain.still_ready = asked
            elif status == 503:
                drain.not_ready, drain.reason = time.monotonic_ns(), text.strip()
        status, _ = look_at(address, "/livez")
        # Nobody answers any more when it has said its last words.
        if status:
            drain.dead_pages += status != 200
        elif not _LAST_WORDS.search(process.stderr):
            drain.dead_pages += process.running()
        time.sleep(_LOOK_SECONDS)


class DrainLoop(kill_loop.KillLoop):
    """A kill loop whose servers are told to stop, and watched while they do."""

    def __init__(self, settings: Settings, directory: pathlib.Path) -> None:
        super().__init__(settings, directory)
        self.drains: list[Drain] = []

    def cluster_options(self) -> dict[str, Any]:
        return {"admin": True, "server_flags": ["--drain-delay", f"{DRAIN_DELAY_SECONDS:g}s"],
                "coordinator_flags": ["--checkpoint-interval", f"{CHECKPOINT_SECONDS}s"]}

    def stop_member(self, kind: str, victim: int, member: Member) -> None:
        # What is told before main() has begun ends a process the hard way; and who is not serving
        # has nothing to drain.
        address = self.cluster.admin_address(member)
        processes.wait_until(lambda: look_at(address, "/readyz")[0] == 200,
                             lambda: f"{member.name} is ready", alive=[member.process])
        drain = Drain(kind, victim, time.monotonic_ns())
        self.drains.append(drain)
        watch = threading.Thread(target=watch_admin_page, daemon=True,
                                 args=(drain, address, member.process))
        watch.start()
        drain.told = time.monotonic_ns()
        member.process.send(signal.SIGTERM)
        with contextlib.suppress(AssertionError):  # if it does not end: SIGKILL comes next
            drain.code = member.process.finish().code
        drain.ended = time.monotonic_ns()
        words = str(member.process)
        if drain.code is None:
            member.kill()
        watch.join()
        faults = list(drain.faults())
        if faults:
            self.problems.extend([*faults, words])

    def summarize(self, result: Result, history: list[Event]) -> Result:
        early = noticed_early(self.drains, history)
        if early:
            result["violations"]["noticed_early"] = len(early)
        seconds = [(drain.ended - drain.told) / 1e9 for drain in self.drains if drain.kind == SHARD]
        return result | {
            "drains": len(self.drains), "drain_max_seconds": max(seconds, default=0.0),
            "drain_p99_seconds": kill_loop.quantile(seconds, 0.99) or 0.0,
            "served_while_not_ready": served_while_not_ready(self.drains, history)}
