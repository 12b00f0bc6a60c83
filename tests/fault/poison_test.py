"""Poison leaves no trace in the rows, and the search for it would find one.

usage: poison_test.py --bin-dir DIR [unittest arguments]
"""

import random
import unittest
from unittest import mock

import fault_paths  # noqa: F401
import poison
import poison_updates
import processes
import shard_client
from poison_updates import EXPECTED, HARMLESS, KINDS

SEED = 5


class TallyTest(unittest.TestCase):
    def test_only_the_words_of_its_kind_will_do(self):
        tally = poison.Tally()
        tally.add(poison_updates.nan, "NOT_FINITE")
        tally.add(poison_updates.minus_zero, "")
        self.assertEqual(tally.wrong, [])
        tally.add(poison_updates.nan, "")
        tally.add(poison_updates.nan, "SEQUENCE_GAP")
        self.assertEqual(tally.wrong, ["nan number 2: taken", "nan number 3: SEQUENCE_GAP"])


class PoisonTest(unittest.TestCase):
    def test_every_kind_is_refused_and_leaves_no_trace(self):
        result = poison.run(SEED, count=1000, per_good=5)
        self.assertEqual(result["poison_mismatches"], 0, result)
        self.assertEqual((result["poison"], result["good"]), (1000, 201))
        self.assertEqual(set(result["kinds"]), {kind.__name__ for kind in KINDS})
        for kind in HARMLESS:
            self.assertLessEqual(set(result["kinds"][kind.__name__]), {"taken", "NOT_FINITE"})

    def test_an_update_that_is_taken_shows(self):
        # A good update in the place of poison: refused by nobody, and in the digest of its table.
        with mock.patch.dict(EXPECTED, {poison_updates.good_gradient: ("NOT_FINITE",)}), \
                mock.patch.object(poison, "KINDS", (poison_updates.good_gradient,)):
            result = poison.run(SEED, count=3, per_good=3)
        self.assertEqual(result["poison"], 3)
        # Three that were taken, the digest of their table, and the count of updates.
        self.assertEqual(result["poison_mismatches"], 5, result)
        self.assertIn("table learnt", " ".join(result["mismatches"]))


class QuarantineTest(processes.ProcessTest):
    def test_who_sends_too_much_of_it_is_refused_and_others_are_not(self):
        source = random.Random(SEED)
        with poison.running_shard(self.directory / "shard", "checkpoint",
                                  quarantine_limit=20) as (connection, _):
            bad = poison.Sender(connection, b"b" * 16)
            answers = []
            with self.assertRaises(shard_client.CallFailed) as refused:
                for _ in range(100):
                    answers.append(bad.send(
                        lambda envelope: poison_updates.nan(source, envelope)))
            # One more had its answer, and then a greeting that had none.
            self.assertEqual(answers, ["NOT_FINITE"] * 20)
            self.assertIn("QUARANTINED", str(refused.exception))
            good = poison.Sender(connection, b"g" * 16)
            self.assertEqual(good.send(
                lambda envelope: poison_updates.good_add(source, envelope)), "")


if __name__ == "__main__":
    processes.main()
