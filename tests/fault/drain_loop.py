"""Stops servers of a working cluster by SIGTERM, again and again, and looks at how they go.

Increment clients and trainers (`dslide train`) work on the cluster meanwhile, as in kill_loop.py.
Every stop must

- make the server say that it is not ready before the first client notices anything: it is started
  with a --drain-delay in which calls must go on;
- keep /livez answering until the end;
- end with exit code 0; how long it takes is reported.

At the end no update that was acknowledged may be lost, in any mode, and none applied twice. The
last line of stdout is one JSON object. Exit code 0: all of it held.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import kill_loop
import processes
from fault_cluster import Member
from grpc_client import NO_ANSWER
from kill_loop import Result, Settings
from kill_schedule import COORDINATOR, SHARD
from oracle import Event
from processes import Process

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
    ended: int | None = None
    still_ready: int | None = None  # the last question that /readyz answered with 200 was asked
    not_ready: int | None = None  # /readyz first said so
    dead_pages: int = 0  # answers of /livez that were no 200 while the process lived
    reason: str = ""  # that /readyz gave

    @property
    def seconds(self) -> float:
        assert self.ended is not None
        return (self.ended - self.told) / 1e9

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


def noticed_early(drains: Sequence[Drain], history: list[Event]) -> list[Drain]:
    """Of stopped shards: those that called themselves ready when a client had been refused.

    Asked later than the client knew, so that it is no matter how far apart the looks were. A call
    that nobody answered in the client's time is nobody's refusal.
    """
    early = []
    for drain in drains:
        if drain.kind != SHARD or drain.still_ready is None:
            continue
        first = min((event["t"] for event in history
                     if event["event"] in ("refused", "unknown") and event["shard"] == drain.victim
                     and not event.get("why", "").endswith(NO_ANSWER)
                     and drain.told <= event["t"] <= drain.ended), default=None)
        if first is not None and first < drain.still_ready:
            early.append(drain)
    return early


def served_while_not_ready(drains: Sequence[Drain], history: list[Event]) -> int:
    """Updates that shards applied between "not ready" and the end: what the delay is for."""
    return sum(1 for drain in drains if drain.kind == SHARD and drain.not_ready is not None
               for event in history
               if event["event"] == "applied" and event["shard"] == drain.victim
               and drain.not_ready <= event["t"] <= drain.ended)


def get_page(address: str, path: str) -> tuple[int, str] | None:
    """(status, text) of an admin page, or None when nobody answers."""
    # No proxy: loopback is never reached through one.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}{path}", timeout=processes.PATIENCE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return None


class AdminWatch(threading.Thread):
    """Looks at a server's admin page until the process has ended, and fills a Drain."""

    def __init__(self, drain: Drain, address: str, process: Process) -> None:
        super().__init__(daemon=True)
        self._drain, self._address, self._process = drain, address, process

    def _look_at_readiness(self) -> None:
        asked = time.monotonic_ns()
        ready = get_page(self._address, "/readyz")
        if ready and ready[0] == 200:
            self._drain.still_ready = asked
        elif ready and ready[0] == 503:
            self._drain.not_ready = time.monotonic_ns()
            self._drain.reason = ready[1].strip()

    def run(self) -> None:
        while self._process.running():
            if self._drain.not_ready is None:
                self._look_at_readiness()
            live = get_page(self._address, "/livez")
            # Nobody answers any more when it has said its last words.
            if live is None and not _LAST_WORDS.search(self._process.stderr):
                self._drain.dead_pages += self._process.running()
            elif live is not None:
                self._drain.dead_pages += live[0] != 200
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
        processes.wait_until(lambda: (get_page(address, "/readyz") or (0,))[0] == 200,
                             lambda: f"{member.name} is ready", alive=[member.process])
        drain = Drain(kind, victim, time.monotonic_ns())
        self.drains.append(drain)
        watch = AdminWatch(drain, address, member.process)
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
        return result | {"drains": len(self.drains)} | {
            f"{kind}_drain_{name}_seconds": kill_loop.quantile(
                [drain.seconds for drain in self.drains if drain.kind == kind], part)
            for kind in (SHARD, COORDINATOR)
            for name, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        } | {"noticed_early": len(early),
             "served_while_not_ready": served_while_not_ready(self.drains, history)}
