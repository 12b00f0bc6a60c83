"""The drain loop: what it calls a fault, and servers that are told to stop under load."""

from __future__ import annotations

from typing import Any

import drain_loop
import kill_loop
from drain_loop import Drain, noticed_early, served_while_not_ready
from grpc_client import NO_ANSWER
from kill_schedule import COORDINATOR, SHARD, STOP
from oracle import Event
from process_case import ProcessCase

SECOND = 10**9


def drain(**changes: Any) -> Drain:
    """A stop that went well: told at 1 s, not ready any more at 1.1 s, over at 2 s."""
    values: dict[str, Any] = {
        "kind": SHARD, "victim": 0, "told": SECOND, "code": 0, "ended": 2 * SECOND,
        "still_ready": SECOND + SECOND // 12, "not_ready": SECOND + SECOND // 10,
        "reason": "not ready: draining"}
    return Drain(**(values | changes))


class JudgementTest:
    def faults(self, **changes: Any) -> str:
        return " ".join(drain(**changes).faults())

    def test_a_good_stop_has_no_fault(self) -> None:
        assert self.faults() == ""

    def test_everything_that_may_go_wrong_is_named(self) -> None:
        assert "exit code 1" in self.faults(code=1)
        assert "exit code -9" in self.faults(code=-9)
        assert "exit code None" in self.faults(code=None)
        assert "never said" in self.faults(not_ready=None)
        assert "another reason" in self.faults(reason="not ready: fenced")
        assert "/livez failed 2 times" in self.faults(dead_pages=2)

    def event(self, kind: str, seconds: float, shard: int = 0) -> Event:
        return {"event": kind, "t": int(seconds * SECOND), "shard": shard}

    def test_a_client_that_is_refused_before_the_page_says_so_was_early(self) -> None:
        for kind in ("refused", "unknown"):
            assert len(noticed_early([drain()], [self.event(kind, 1.05)])) == 1
            assert noticed_early([drain()], [self.event(kind, 1.2)]) == []
            # Nobody looked in between.
            assert noticed_early([drain(still_ready=None)], [self.event(kind, 1.05)]) == []
            # Before the signal, after the end, or at another shard: not of this stop.
            others = [self.event(kind, 0.9), self.event(kind, 2.1), self.event(kind, 1.05, shard=1)]
            assert noticed_early([drain()], others) == []

    def test_a_call_that_nobody_has_answered_is_no_refusal(self) -> None:
        event = self.event("unknown", 1.05) | {"why": f"127.0.0.1:1: {NO_ANSWER}"}
        assert noticed_early([drain()], [event]) == []

    def test_what_was_served_between_not_ready_and_the_end_is_counted(self) -> None:
        events = [self.event("applied", at) for at in (1.05, 1.2, 1.3, 2.5)]
        assert served_while_not_ready([drain()], events) == 2
        assert served_while_not_ready([drain(kind=COORDINATOR)], events) == 0


class DrainLoopTest(ProcessCase):
    def test_servers_that_are_told_to_stop_lose_nothing_and_end_well(self) -> None:
        directory = self.directory / "run"
        directory.mkdir()
        settings = kill_loop.Settings(
            3, "checkpoint", strikes={(SHARD, STOP): 2, (COORDINATOR, STOP): 1})
        result = kill_loop.run(settings, directory, loop_class=drain_loop.DrainLoop)
        assert result["violations"] == {}, result
        assert (result["drains"], result["acked_lost"], result["applied_twice"]) == (3, 0, 0)
        # The delay between "not ready" and the end of service is really served.
        assert result["served_while_not_ready"] > 0
        assert result["shard_drain_max_seconds"] > drain_loop.DRAIN_DELAY_SECONDS
