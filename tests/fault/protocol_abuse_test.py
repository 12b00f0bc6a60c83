"""The corpus of hostile peers: what a server says to each, and a short run of all of them."""

from __future__ import annotations

from typing import Any

import processes
import protocol_abuse
import pytest
from abuse_attacks import ATTACKS
from protocol_abuse import INSIDER, PLAIN, STRANGER, Outcome


def outcome(**changes: Any) -> Outcome:
    values: dict[str, Any] = {
        "attack": "flood", "position": STRANGER, "alive": True, "cpu_seconds": 0.5,
        "memory_mib": 3.0, "honest_before": [1.0, 20.0], "honest_during": [1.0, 30.0],
        "honest_failures": [], "sent": {}}
    return Outcome(**(values | changes))


@pytest.mark.parametrize(("changes", "exceeded", "of_strangers", "of_insiders"), [
    ({}, [], "", ""),
    ({"alive": False}, [], "has ended", "has ended"),
    ({"honest_failures": ["UNAVAILABLE"]}, [], "honest calls failed", "honest calls failed"),
    # Only strangers must cost little.
    ({"cpu_seconds": 2.5}, ["cpu"], "bound of cpu", ""),
    ({"memory_mib": 65.0}, ["memory"], "bound of memory", ""),
    # An honest client may become twice as slow; below what a scheduler does, nothing is said.
    ({"honest_during": [1.0, 50.0]}, ["p99"], "", ""),
    ({"honest_before": [0.1, 0.2], "honest_during": [1, 19]}, [], "", "")])
def test_what_breaks_a_bound(changes: Any, exceeded: list[str], of_strangers: str,
                             of_insiders: str) -> None:
    assert outcome(**changes).exceeded() == exceeded
    for position, words in ((STRANGER, of_strangers), (INSIDER, of_insiders)):
        said = " ".join(outcome(position=position, **changes).violations())
        assert words in said if words else not said


def attacked(position: str, *names: str) -> dict[str, Outcome]:
    """{attack: outcome} of some of the corpus, from one position."""
    # A stranger's next handshake may have to wait for about a second.
    seconds = 2.5 if position == STRANGER else 0.5
    attacks = [attack for attack in ATTACKS if attack.__name__ in names]
    outcomes = {one.attack: one for one in protocol_abuse.run(seconds, attacks, position)}
    assert [line for one in outcomes.values() for line in one.violations()] == []
    assert outcomes.keys() == set(names)
    return outcomes


@pytest.mark.usefixtures("bin_dir")
def test_who_has_no_certificate_gets_nowhere() -> None:
    attacked(STRANGER, "idle_sockets")
    # It is told after its part of the handshake: what was sent until then is read by nobody.
    processes.wait_until(
        lambda: attacked(STRANGER, "rapid_reset")["rapid_reset"].sent.get("closed"),
        lambda: "a connection that is closed")


@pytest.mark.usefixtures("bin_dir")
def test_plaintext_peers_and_insiders_do_not_end_the_server() -> None:
    for one in attacked(PLAIN, "rapid_reset", "giant_length", "compressed_bomb").values():
        assert sum(one.sent.values()) > 0, one
    attacked(INSIDER, "continuation_flood")
