"""The corpus of hostile peers: what a server says to each, and a short run of all of them.

usage: protocol_abuse_test.py --bin-dir DIR [unittest arguments]
"""

import collections
import itertools
import unittest

import abuse_attacks
import fault_paths  # noqa: F401
import processes
import protocol_abuse
from protocol_abuse import ATTACKS, INSIDER, PLAIN, STRANGER, Outcome


class OutcomeTest(unittest.TestCase):
    def outcome(self, **changes):
        values = {"attack": "flood", "position": STRANGER, "alive": True, "cpu_seconds": 0.5,
                  "memory_mib": 3.0, "honest_before": [1.0, 20.0], "honest_during": [1.0, 30.0],
                  "honest_failures": [], "sent": {}}
        return Outcome(**(values | changes))

    def test_what_holds(self):
        self.assertEqual(self.outcome().exceeded(), [])
        self.assertEqual(list(self.outcome().violations()), [])

    def test_a_dead_server_and_a_failed_honest_call_are_violations_from_everywhere(self):
        for position in protocol_abuse.POSITIONS:
            self.assertIn("has ended", " ".join(
                self.outcome(position=position, alive=False).violations()))
            self.assertIn("honest calls failed", " ".join(
                self.outcome(position=position, honest_failures=["UNAVAILABLE"]).violations()))

    def test_only_strangers_must_cost_little(self):
        for changes in ({"cpu_seconds": 2.5}, {"memory_mib": 65.0}):
            self.assertEqual(len(list(self.outcome(**changes).violations())), 1)
            insider = self.outcome(position=INSIDER, **changes)
            self.assertEqual(list(insider.violations()), [])
            self.assertEqual(len(insider.exceeded()), 1)

    def test_an_honest_client_may_become_twice_as_slow(self):
        self.assertEqual(self.outcome(honest_during=[1.0, 50.0]).exceeded(), ["p99"])
        # Below what a scheduler does by itself, nothing is said.
        self.assertEqual(self.outcome(honest_before=[0.1, 0.2], honest_during=[1, 19]).exceeded(),
                         [])


class CorpusTest(unittest.TestCase):
    def test_every_attack_is_told_when_to_stop(self):
        self.assertEqual(len({attack.__name__ for attack in ATTACKS}), len(ATTACKS))
        for attack in ATTACKS:
            self.assertTrue(attack.__doc__, attack)
            # Nobody listens there: it ends all the same, and does not raise.
            target = abuse_attacks.Target(f"127.0.0.1:{processes.free_port()}")
            looks = itertools.count()
            attack(target, collections.Counter(), lambda looks=looks: next(looks) > 3)


class ProtocolAbuseTest(unittest.TestCase):
    SECONDS = 0.5
    # A stranger's next handshake may have to wait for about a second.
    STRANGER_SECONDS = 2.5

    def attacked(self, position, *names):
        """{attack: outcome} of the corpus, or of some of it, from one position."""
        seconds = self.STRANGER_SECONDS if position == STRANGER else self.SECONDS
        attacks = [attack for attack in ATTACKS if not names or attack.__name__ in names]
        result = protocol_abuse.run(seconds, attacks, [position])
        self.assertEqual(result["violations"], [], result)
        self.assertEqual(result["survived"], len(attacks))
        return {outcome["attack"]: outcome for outcome in result["outcomes"]}

    def test_who_has_no_certificate_gets_nowhere(self):
        self.attacked(STRANGER, "idle_sockets")
        # It is told after its part of the handshake: what was sent until then is read by nobody.
        processes.wait_until(
            lambda: self.attacked(STRANGER, "rapid_reset")["rapid_reset"]["sent"].get("closed"),
            lambda: "a connection that is closed")

    def test_plaintext_peers_and_insiders_do_not_end_the_server(self):
        outcomes = self.attacked(PLAIN, "rapid_reset", "giant_length", "compressed_bomb")
        for outcome in outcomes.values():
            self.assertGreater(sum(outcome["sent"].values()), 0, outcome)
        self.attacked(INSIDER, "continuation_flood")


if __name__ == "__main__":
    processes.main()
