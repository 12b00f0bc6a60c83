"""The oracle flags every history that must be flagged, and no other."""

from __future__ import annotations

import pathlib
import random
from typing import Any, Self

import pytest
from oracle import HistoryTail, Recorder, Sums, Verdict, judge, read_history, recovery_seconds


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
        return self.add("hello", acknowledged=acknowledged, next=following, generation=generation)


def sums(**cells: Any) -> Sums:
    """sums(s1=1, s2=(1, 0)): the cells of sequence 1, 2 of client c on shard 0."""
    return {("c", 0, int(name[1:])): [float(value) for value in
                                      (cell if isinstance(cell, tuple) else (cell, cell))]
            for name, cell in cells.items()}


LISTS = ("acked_lost", "applied_twice", "torn", "garbled", "refused_but_applied", "never_sent",
         "replies_differ", "steps_shared", "unreported", "false_reports")


def found(verdict: Verdict) -> dict[str, list[int]]:
    """The sequences in the lists that are not empty."""
    return {name: [key[2] for key in getattr(verdict, name)]
            for name in LISTS if getattr(verdict, name)}


TWO = History().acked(1).acked(2)
ASKED_AGAIN = History().add("invoke").add("unknown").acked(1)
REFUSED = History().add("invoke").add("refused")


@pytest.mark.parametrize(("history", "final", "expected"), [
    (TWO, sums(s1=1, s2=1), {}),
    (TWO, sums(s1=1, s2=0), {"acked_lost": [2]}),
    (TWO, sums(s1=1), {"acked_lost": [2]}),
    (History().acked(1), sums(s1=2), {"applied_twice": [1]}),
    # A loss and a repetition do not cancel.
    (TWO, sums(s1=2, s2=0), {"applied_twice": [1], "acked_lost": [2]}),
    # An unknown outcome may be either, but not twice; repeated until its answer, it is one.
    (History().add("invoke").add("unknown"), sums(s1=0), {}),
    (History().add("invoke"), sums(s1=1), {}),
    (History().add("invoke"), sums(s1=2), {"applied_twice": [1]}),
    (ASKED_AGAIN, sums(s1=1), {}),
    (ASKED_AGAIN, sums(s1=2), {"applied_twice": [1]}),
    (ASKED_AGAIN, sums(s1=0), {"acked_lost": [1]}),
    (REFUSED, sums(s1=0), {}),
    (REFUSED, sums(s1=1), {"refused_but_applied": [1]}),
    # Refused once, and later unknown.
    (History().add("invoke").add("unknown").add("invoke").add("refused"), sums(s1=1), {}),
    (History().acked(1), sums(s1=(1, 0)), {"torn": [1], "acked_lost": [1]}),
    (History().acked(1), sums(s1=(1, 2)), {"torn": [1], "applied_twice": [1]}),
    (History().add("invoke"), sums(s1=(0, 1)), {"torn": [1]}),
    (History().acked(1), sums(s1=(1.5, 1.5)), {"garbled": [1], "applied_twice": [1]}),
    (History().acked(1), sums(s1=1, s2=1), {"never_sent": [2]}),
    (History().acked(1), sums(s1=1, s2=0), {}),
    (History().acked(1, step=4).acked(1, step=4), sums(s1=1), {}),
    (History().acked(1, step=4).acked(1, step=5), sums(s1=1), {"replies_differ": [1]}),
    (History().acked(1, step=4).acked(1, step=4, generation=2), sums(s1=1), {}),
    (History().acked(1, step=4).acked(2, step=4), sums(s1=1, s2=1), {"steps_shared": [1, 2]}),
    # Another life of the shard counts for itself.
    (History().acked(1, step=4).acked(2, step=4, generation=2), sums(s1=1, s2=1), {}),
    # A loss that the shard reports, one that it hides, and one that is none.
    (History().acked(1).acked(2).acked(3).hello(3, 2, generation=2), sums(s1=1),
     {"acked_lost": [2, 3]}),
    (History().acked(1).acked(2).hello(2, 3, generation=2), sums(s1=1),
     {"acked_lost": [2], "unreported": [2]}),
    (History().acked(1).acked(2).hello(2, 1, generation=2), sums(s1=1, s2=1),
     {"false_reports": [1, 2]}),
])
def test_what_is_wrong_with_a_history(history: History, final: Sums, expected: Any) -> None:
    verdict = judge(history.events, final)
    assert found(verdict) == expected
    never = {name: len(found) for name, found in expected.items() if name in Verdict.NEVER}
    assert verdict.violations(loss_allowed=True) == never
    lost = {"acked_lost": len(expected["acked_lost"])} if "acked_lost" in expected else {}
    assert verdict.violations(loss_allowed=False) == never | lost


def test_counts() -> None:
    counts = judge(TWO.events, sums(s1=1, s2=1)).counts
    assert (counts["updates"], counts["acked"], counts["repeated"]) == (2, 2, 0)
    assert judge(ASKED_AGAIN.events, sums(s1=1)).counts["repeated"] == 1
    for times, name in ((0, "unknown_not_applied"), (1, "unknown_applied")):
        assert judge(History().add("invoke").events, sums(s1=times)).counts[name] == 1
    lossy = History().acked(1).acked(2).acked(3).hello(3, 2, generation=2)
    assert judge(lossy.events, sums(s1=1)).counts["reported_lost"] == 2


def test_clients_and_shards_are_apart() -> None:
    history = History().acked(1).acked(1, client="d", step=2).acked(1, shard=1)
    final = {("c", 0, 1): [1.0], ("d", 0, 1): [0.0], ("c", 1, 1): [1.0]}
    assert judge(history.events, final).acked_lost == [("d", 0, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_random_faults_are_counted_exactly(seed: int) -> None:
    source, history, final, lost, twice = random.Random(seed), History(), {}, 0, 0
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


def test_recovery_is_from_the_kill_to_the_first_update_that_was_sent_after_it() -> None:
    second, where = 10**9, {"client": "c", "shard": 0}
    history = [
        {"t": 1 * second, "event": "invoke", "sequence": 1, **where},
        # Its answer was on its way when the shard was killed.
        {"t": 3 * second, "event": "applied", "sequence": 1, **where},
        {"t": 5 * second, "event": "invoke", "sequence": 2, **where},
        {"t": 6 * second, "event": "applied", "sequence": 2, **where}]
    assert recovery_seconds(history, [(2 * second, 0)]) == [4.0]
    # The second kill falls into the recovery from the first.
    assert recovery_seconds(history, [(2 * second, 0), (4 * second, 0)]) == [4.0]
    assert recovery_seconds(history, [(2 * second, 1), (7 * second, 0)]) == []


def test_what_was_recorded_is_read_by_time_and_as_it_comes(tmp_path: pathlib.Path) -> None:
    paths = [tmp_path / f"history-{name}.jsonl" for name in "ab"]
    recorders, tail = [Recorder(path) for path in paths], HistoryTail(tmp_path)
    for sequence in range(10):
        recorders[sequence % 2].record("invoke", client="c", shard=0, sequence=sequence)
    assert [event["sequence"] for event in read_history(paths)] == list(range(10))
    assert len(list(tail.new("invoke"))) == 10
    recorders[0].record("applied", sequence=3)
    recorders[1].record("refused", sequence=3)
    assert [event["event"] for event in tail.new("invoke", "applied")] == ["applied"]


def test_the_last_line_of_a_killed_process_may_be_cut(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "history-a.jsonl"
    Recorder(path).record("invoke", client="c", shard=0, sequence=1)
    whole, tail = path.read_text(), HistoryTail(tmp_path)
    path.write_text(whole + whole[:-10])
    assert len(read_history([path])) == len(list(tail.new("invoke"))) == 1
    path.write_text(whole + "nonsense\n")
    with pytest.raises(ValueError):
        read_history([path])
