"""The drain loop: what it calls a fault, and servers that are told to stop under load."""

from __future__ import annotations

import pathlib
from typing import Any

import drain_loop
import kill_loop
import pytest
from drain_loop import Drain, noticed_early, served_while_not_ready
from grpc_client import NO_ANSWER
from kill_schedule import COORDINATOR, SHARD, STOP
from oracle import Event

SECOND = 10**9


def drain(**changes: Any) -> Drain:
    """A stop that went well: told at 1 s, not ready any more at 1.1 s, over at 2 s."""
    values: dict[str, Any] = {
        "kind": SHARD, "victim": 0, "told": SECOND, "code": 0, "ended": 2 * SECOND,
        "still_ready": SECOND + SECOND // 12, "not_ready": SECOND + SECOND // 10,
        "reason": "not ready: draining"}
    return Drain(**(values | changes))


def event(kind: str, seconds: float, shard: int = 0, **details: Any) -> Event:
    return {"event": kind, "t": int(seconds * SECOND), "shard": shard, **details}


@pytest.mark.parametrize(("changes", "fault"), [
    ({"code": -9}, "exit code -9"), ({"code": None}, "exit code None"),
    ({"not_ready": None}, "never said"), ({"reason": "not ready: fenced"}, "another reason"),
    ({"dead_pages": 2}, "/livez failed 2 times")])
def test_what_goes_wrong_is_named(changes: Any, fault: str) -> None:
    assert list(drain().faults()) == []
    assert fault in " ".join(drain(**changes).faults())


@pytest.mark.parametrize("kind", ["refused", "unknown"])
def test_a_client_that_is_refused_before_the_page_says_so_was_early(kind: str) -> None:
    assert len(noticed_early([drain()], [event(kind, 1.05)])) == 1
    assert noticed_early([drain()], [event(kind, 1.2)]) == []
    # Nobody looked in between.
    assert noticed_early([drain(still_ready=None)], [event(kind, 1.05)]) == []
    # Before the signal, after the end, at another shard, or nobody's answer: not of this stop.
    assert noticed_early([drain()], [
        event(kind, 0.9), event(kind, 2.1), event(kind, 1.05, shard=1),
        event(kind, 1.05, why=f"127.0.0.1:1: {NO_ANSWER}")]) == []


def test_what_was_served_between_not_ready_and_the_end_is_counted() -> None:
    events = [event("applied", at) for at in (1.05, 1.2, 1.3, 2.5)]
    assert served_while_not_ready([drain()], events) == 2
    assert served_while_not_ready([drain(kind=COORDINATOR)], events) == 0


@pytest.mark.usefixtures("bin_dir")
def test_servers_that_are_told_to_stop_lose_nothing_and_end_well(tmp_path: pathlib.Path) -> None:
    settings = kill_loop.Settings(
        3, "checkpoint", strikes={(SHARD, STOP): 2, (COORDINATOR, STOP): 1})
    result = kill_loop.run(settings, tmp_path, loop_class=drain_loop.DrainLoop)
    assert result["violations"] == {}, result
    assert (result["drains"], result["acked_lost"], result["applied_twice"]) == (3, 0, 0)
    # The delay between "not ready" and the end of service is really served.
    assert result["served_while_not_ready"] > 0
    assert result["drain_max_seconds"] > drain_loop.DRAIN_DELAY_SECONDS
