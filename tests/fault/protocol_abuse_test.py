"""The corpus of hostile peers: what a server says to each, and a short run of all of them."""

from __future__ import annotations

from typing import Any

import processes
import protocol_abuse
from abuse_attacks import ATTACKS
from protocol_abuse import INSIDER, PLAIN, STRANGER, Outcome


class OutcomeTest:
    def outcome(self, **changes: Any) -> Outcome:
        values: dict[str, Any] = {
            "attack": "flood", "position": STRANGER, "alive": True, "cpu_seconds": 0.5,
            "memory_mib": 3.0, "honest_before": [1.0, 20.0], "honest_during": [1.0, 30.0],
            "honest_failures": [], "sent": {}}
        return Outcome(**(values | changes))

    def test_what_holds(self) -> None:
        assert self.outcome().exceeded() == []
        assert list(self.outcome().violations()) == []

    def test_a_dead_server_and_a_failed_honest_call_are_violations_from_everywhere(self) -> None:
        for position in protocol_abuse.POSITIONS:
            assert "has ended" in " ".join(
                self.outcome(position=position, alive=False).violations())
            assert "honest calls failed" in " ".join(
                self.outcome(position=position, honest_failures=["UNAVAILABLE"]).violations())

    def test_only_strangers_must_cost_little(self) -> None:
        for changes in ({"cpu_seconds": 2.5}, {"memory_mib": 65.0}):
            assert len(list(self.outcome(**changes).violations())) == 1
            insider = self.outcome(position=INSIDER, **changes)
            assert list(insider.violations()) == []
            assert len(insider.exceeded()) == 1

    def test_an_honest_client_may_become_twice_as_slow(self) -> None:
        assert self.outcome(honest_during=[1.0, 50.0]).exceeded() == ["p99"]
        # Below what a scheduler does by itself, nothing is said.
        assert self.outcome(honest_before=[0.1, 0.2], honest_during=[1, 19]).exceeded() == []


class ProtocolAbuseTest:
    SECONDS = 0.5
    # A stranger's next handshake may have to wait for about a second.
    STRANGER_SECONDS = 2.5

    def attacked(self, position: str, *names: str) -> dict[str, dict[str, Any]]:
        """{attack: outcome} of the corpus, or of some of it, from one position."""
        seconds = self.STRANGER_SECONDS if position == STRANGER else self.SECONDS
        attacks = [attack for attack in ATTACKS if not names or attack.__name__ in names]
        result = protocol_abuse.run(seconds, attacks, [position])
        assert result["violations"] == [], result
        assert result["survived"] == len(attacks)
        return {outcome["attack"]: outcome for outcome in result["outcomes"]}

    def test_who_has_no_certificate_gets_nowhere(self) -> None:
        self.attacked(STRANGER, "idle_sockets")
        # It is told after its part of the handshake: what was sent until then is read by nobody.
        processes.wait_until(
            lambda: self.attacked(STRANGER, "rapid_reset")["rapid_reset"]["sent"].get("closed"),
            lambda: "a connection that is closed")

    def test_plaintext_peers_and_insiders_do_not_end_the_server(self) -> None:
        outcomes = self.attacked(PLAIN, "rapid_reset", "giant_length", "compressed_bomb")
        for outcome in outcomes.values():
            assert sum(outcome["sent"].values()) > 0, outcome
        self.attacked(INSIDER, "continuation_flood")
