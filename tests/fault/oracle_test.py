"""The oracle flags every history that must be flagged, and no other."""

from __future__ import annotations

import pathlib
import random
from typing import Any, Self

import pytest
from oracle import Recorder, Sums, Verdict, judge, read_history, recovery_seconds


class History:
    """Builds histories; times are the order of the calls."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def add(self, event: str, sequence: int = 1, client: str = "c", shard: int = 0,
            **details: Any) -> Self:
        self.events.append({"t": len(self.events) + 1, "event": event, "client": client,
                            "shard": shard, "sequence": sequence} | details)
        return self

    def acked(self, sequence: int, generation: int = 1, step: Any = None, **where: Any) -> Self:
        self.add("invoke", sequence, **where)
        return self.add("applied", sequence, generation=generation,
                        step=sequence if step is None else step, **where)

    def hello(self, acknowledged: int, following: Any, generation: int) -> Self:
        self.events.append({"t": len(self.events) + 1, "event": "hello", "client": "c", "shard": 0,
                            "acknowledged": acknowledged, "next": following,
                            "generation": generation})
        return self


def sums(**cells: Any) -> Sums:
    """sums(s1=1, s2=(1, 0)): the cells of sequence 1, 2 of client c on shard 0."""
    return {("c", 0, int(name[1:])): [float(value) for value in
                                      (cell if isinstance(cell, tuple) else (cell, cell))]
            for name, cell in cells.items()}


class VerdictTest:
    def assert_found(self, history: History, final: Sums, loss_allowed: bool = False,
                     **expected: Any) -> Verdict:
        """The lists that are not empty have these sequences, and all others are empty."""
        verdict = judge(history.events, final)
        found = {}
        for name in ("acked_lost", "applied_twice", "torn", "garbled", "refused_but_applied",
                     "never_sent", "replies_differ", "steps_shared", "unreported", "false_reports"):
            if getattr(verdict, name):
                found[name] = [key[2] for key in getattr(verdict, name)]
        assert found == expected
        return verdict

    def test_acknowledged_once_and_there_once(self) -> None:
        history = History().acked(1).acked(2)
        verdict = self.assert_found(history, sums(s1=1, s2=1))
        assert verdict.violations(loss_allowed=False) == {}
        assert (verdict.counts["updates"], verdict.counts["acked"]) == (2, 2)

    def test_a_lost_acknowledged_update(self) -> None:
        history = History().acked(1).acked(2)
        verdict = self.assert_found(history, sums(s1=1, s2=0), acked_lost=[2])
        assert verdict.violations(loss_allowed=False) == {"acked_lost": 1}
        assert verdict.violations(loss_allowed=True) == {}
        # Not in the sums at all.
        self.assert_found(history, sums(s1=1), acked_lost=[2])

    def test_an_update_that_was_applied_twice(self) -> None:
        verdict = self.assert_found(History().acked(1), sums(s1=2), applied_twice=[1])
        assert verdict.violations(loss_allowed=True) == {"applied_twice": 1}

    def test_a_loss_and_a_repetition_do_not_cancel(self) -> None:
        self.assert_found(History().acked(1).acked(2), sums(s1=2, s2=0), applied_twice=[1],
                          acked_lost=[2])

    def test_an_unknown_outcome_may_be_either(self) -> None:
        for history in (History().add("invoke").add("unknown"), History().add("invoke")):
            for times, name in ((0, "unknown_not_applied"), (1, "unknown_applied")):
                verdict = self.assert_found(history, sums(s1=times))
                assert verdict.counts[name] == 1
            # But not twice.
            self.assert_found(history, sums(s1=2), applied_twice=[1])

    def test_an_unknown_outcome_that_was_repeated_until_its_answer(self) -> None:
        history = History().add("invoke").add("unknown").acked(1)
        verdict = self.assert_found(history, sums(s1=1))
        assert verdict.counts["repeated"] == 1
        self.assert_found(history, sums(s1=2), applied_twice=[1])
        self.assert_found(history, sums(s1=0), acked_lost=[1])

    def test_a_refused_update_must_not_be_there(self) -> None:
        refused = History().add("invoke").add("refused", code=8, reason="QUEUE_FULL")
        self.assert_found(refused, sums(s1=0))
        self.assert_found(refused, sums(s1=1), refused_but_applied=[1])
        # An earlier attempt without an answer may have been applied.
        self.assert_found(History().add("invoke").add("unknown").add("invoke").add("refused"),
                          sums(s1=1))

    def test_a_half_applied_update(self) -> None:
        self.assert_found(History().acked(1), sums(s1=(1, 0)), torn=[1], acked_lost=[1])
        self.assert_found(History().acked(1), sums(s1=(1, 2)), torn=[1], applied_twice=[1])
        self.assert_found(History().add("invoke"), sums(s1=(0, 1)), torn=[1])

    def test_a_sum_that_is_no_number_of_updates(self) -> None:
        self.assert_found(History().acked(1), sums(s1=(1.5, 1.5)), garbled=[1], applied_twice=[1])

    def test_an_update_that_nobody_sent(self) -> None:
        self.assert_found(History().acked(1), sums(s1=1, s2=1), never_sent=[2])
        self.assert_found(History().acked(1), sums(s1=1, s2=0))

    def test_a_repetition_that_got_another_answer(self) -> None:
        self.assert_found(History().acked(1, step=4).acked(1, step=4), sums(s1=1))
        self.assert_found(History().acked(1, step=4).acked(1, step=5), sums(s1=1),
                          replies_differ=[1])
        later = History().acked(1, step=4).acked(1, step=4, generation=2)
        self.assert_found(later, sums(s1=1))

    def test_two_updates_in_the_same_place_of_the_order(self) -> None:
        self.assert_found(History().acked(1, step=4).acked(2, step=4), sums(s1=1, s2=1),
                          steps_shared=[1, 2])
        # Another life of the shard, or another shard, counts for itself.
        other = History().acked(1, step=4).acked(2, step=4, generation=2)
        self.assert_found(other, sums(s1=1, s2=1))

    def test_a_loss_that_the_shard_reports(self) -> None:
        history = History().acked(1).acked(2).acked(3).hello(3, following=2, generation=2)
        self.assert_found(history, sums(s1=1), acked_lost=[2, 3])
        assert judge(history.events, sums(s1=1)).counts["reported_lost"] == 2

    def test_a_loss_that_the_shard_hides(self) -> None:
        history = History().acked(1).acked(2).hello(2, following=3, generation=2)
        self.assert_found(history, sums(s1=1), acked_lost=[2], unreported=[2])
        # A client that has not asked since then cannot have been told.
        self.assert_found(History().acked(1), sums(), acked_lost=[1])

    def test_a_loss_that_is_none(self) -> None:
        history = History().acked(1).acked(2).hello(2, following=1, generation=2)
        self.assert_found(history, sums(s1=1, s2=1), false_reports=[1, 2])

    def test_clients_and_shards_are_apart(self) -> None:
        history = History().acked(1).acked(1, client="d", step=2).acked(1, shard=1)
        final = {("c", 0, 1): [1.0], ("d", 0, 1): [0.0], ("c", 1, 1): [1.0]}
        verdict = judge(history.events, final)
        assert verdict.acked_lost == [("d", 0, 1)]

    def test_random_faults_are_counted_exactly(self) -> None:
        for seed in range(20):
            source = random.Random(seed)
            history, final, lost, twice = History(), {}, 0, 0
            for sequence in range(1, 300):
                times = source.choices((0, 1, 2), (1, 20, 1))[0]
                if source.random() < 0.2:
                    history.add("invoke", sequence).add("unknown", sequence)
                else:
                    history.acked(sequence)
                    lost += times == 0
                twice += times == 2
                final["c", 0, sequence] = [float(times)] * 2
            verdict = judge(history.events, final)
            assert (len(verdict.acked_lost), len(verdict.applied_twice)) == (lost, twice)


class RecoveryTest:
    def test_from_the_kill_to_the_first_update_that_was_sent_after_it(self) -> None:
        second = 10**9
        history = [
            {"t": 1 * second, "event": "invoke", "client": "c", "shard": 0, "sequence": 1},
            # Its answer was on its way when the shard was killed.
            {"t": 3 * second, "event": "applied", "client": "c", "shard": 0, "sequence": 1},
            {"t": 5 * second, "event": "invoke", "client": "c", "shard": 0, "sequence": 2},
            {"t": 6 * second, "event": "applied", "client": "c", "shard": 0, "sequence": 2},
        ]
        assert recovery_seconds(history, [(2 * second, 0)]) == [4.0]
        # The second kill falls into the recovery from the first.
        assert recovery_seconds(history, [(2 * second, 0), (4 * second, 0)]) == [4.0]
        assert recovery_seconds(history, [(2 * second, 1), (7 * second, 0)]) == []


class FileTest:
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: pathlib.Path) -> None:
        self.directory = tmp_path

    def test_what_was_recorded_is_read_by_time(self) -> None:
        paths = [self.directory / name for name in "ab"]
        recorders = [Recorder(path) for path in paths]
        for sequence in range(10):
            recorders[sequence % 2].record("invoke", client="c", shard=0, sequence=sequence)
        history = read_history(paths)
        assert [event["sequence"] for event in history] == list(range(10))

    def test_the_last_line_of_a_killed_process_may_be_cut(self) -> None:
        path = self.directory / "a"
        Recorder(path).record("invoke", client="c", shard=0, sequence=1)
        whole = path.read_text()
        path.write_text(whole + whole[:-10])
        assert len(read_history([path])) == 1
        path.write_text(whole + "nonsense\n")
        with pytest.raises(ValueError):
            read_history([path])
