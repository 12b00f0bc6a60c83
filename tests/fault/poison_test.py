"""Poison leaves no trace in the rows, and the search for it would find one."""

from __future__ import annotations

import random
from unittest import mock

import grpc_client
import poison
import poison_updates
import pytest
from poison_updates import EXPECTED, HARMLESS, KINDS
from process_case import ProcessCase

SEED = 5


class TallyTest:
    def test_only_the_words_of_its_kind_will_do(self) -> None:
        tally = poison.Tally()
        tally.add(poison_updates.nan, "NOT_FINITE")
        tally.add(poison_updates.minus_zero, "")
        assert tally.wrong == []
        tally.add(poison_updates.nan, "")
        tally.add(poison_updates.nan, "SEQUENCE_GAP")
        assert tally.wrong == ["nan number 2: taken", "nan number 3: SEQUENCE_GAP"]


class PoisonTest:
    def test_every_kind_is_refused_and_leaves_no_trace(self) -> None:
        result = poison.run(SEED, count=1000, per_good=5)
        assert result["poison_mismatches"] == 0, result
        assert (result["poison"], result["good"]) == (1000, 201)
        assert set(result["kinds"]) == {kind.__name__ for kind in KINDS}
        for kind in HARMLESS:
            assert set(result["kinds"][kind.__name__]) <= {"taken", "NOT_FINITE"}

    def test_an_update_that_is_taken_shows(self) -> None:
        # A good update in the place of poison: refused by nobody, and in the digest of its table.
        with mock.patch.dict(EXPECTED, {poison_updates.good_gradient: ("NOT_FINITE",)}), \
                mock.patch.object(poison, "KINDS", (poison_updates.good_gradient,)):
            result = poison.run(SEED, count=3, per_good=3)
        assert result["poison"] == 3
        # Three that were taken, the digest of their table, and the count of updates.
        assert result["poison_mismatches"] == 5, result
        assert "table learnt" in " ".join(result["mismatches"])


class QuarantineTest(ProcessCase):
    def test_who_sends_too_much_of_it_is_refused_and_others_are_not(self) -> None:
        source = random.Random(SEED)
        with poison.running_shard(self.directory / "shard", "checkpoint",
                                  quarantine_limit=20) as (connection, _):
            bad = poison.Sender(connection, b"b" * 16)
            answers = []
            with pytest.raises(grpc_client.CallFailed) as refused:
                for _ in range(100):
                    answers.append(bad.send(
                        lambda envelope: poison_updates.nan(source, envelope)))
            # One more had its answer, and then a greeting that had none.
            assert answers == ["NOT_FINITE"] * 20
            assert "QUARANTINED" in str(refused.value)
            good = poison.Sender(connection, b"g" * 16)
            assert good.send(lambda envelope: poison_updates.good_add(source, envelope)) == ""
