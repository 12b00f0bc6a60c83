"""What really happened, kept outside the system: every call, every answer, and the judgement.

A history is made of events, one JSON line each, with a monotonic time in nanoseconds that all
processes of a machine share. An update is known by (client, shard, sequence). Its events:

    invoke    a request was sent: one for each attempt
    applied   the shard says that it has applied it; `step` is its count of the table's updates;
              `again` when it had said so before
    refused   the shard says that it has not: `code` and `reason`
    unknown   no answer: the connection broke, or time passed
    hello     the client told a shard what it has answers to (`acknowledged`), and the shard says
              what it expects next (`next`): at or below it, the shard has lost updates and says so

Each update adds 1 to cells of its own, so the final sums tell for each update how often it was
applied. judge() is a pure function of both.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Event = dict[str, Any]
# (client, shard, sequence) of an update, and its cells' values.
Key = tuple[str, int, int]
Sums = Mapping[Key, Sequence[float]]


class Recorder:
    """Appends events to a file; what was written survives the SIGKILL of this process."""

    def __init__(self, path: pathlib.Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def record(self, event: str, **details: object) -> None:
        line = json.dumps({"t": time.monotonic_ns(), "event": event} | details) + "\n"
        os.write(self._file, line.encode())

    def close(self) -> None:
        os.close(self._file)


def read_history(paths: Sequence[pathlib.Path]) -> list[Event]:
    """The events of several files by time. The last line of a killed writer may be cut."""
    events = []
    for path in paths:
        for line in pathlib.Path(path).read_text(encoding="utf-8").split("\n"):
            try:
                if line:
                    events.append(json.loads(line))
            except ValueError as error:
                if not line.startswith('{"t": ') or line.endswith("}"):
                    raise ValueError(f"{path}: {line!r} is no event") from error
    events.sort(key=lambda event: event["t"])
    return events


class HistoryTail:
    """What has come to the histories of a directory since it last looked."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._read: collections.Counter[pathlib.Path] = collections.Counter()  # bytes

    def new(self, *kinds: str) -> Iterator[Event]:
        """Events of some kinds; a line that is not whole yet comes the next time."""
        marks = [f'"event": "{kind}"'.encode() for kind in kinds]
        for path in self._directory.glob("history-*.jsonl"):
            with open(path, "rb") as history:
                history.seek(self._read[path])
                new = history.read()
            whole = new[:new.rfind(b"\n") + 1]
            self._read[path] += len(whole)
            yield from (json.loads(line) for line in whole.splitlines()
                        if any(mark in line for mark in marks))


@dataclasses.dataclass
class _Update:
    """All that is known of one update."""

    attempts: int = 0
    open_attempts: int = 0  # without any answer
    unknown: int = 0
    refused: int = 0
    answers: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # (generation, step)

    @property
    def acked(self) -> bool:
        return bool(self.answers)

    @property
    def may_be_applied(self) -> bool:
        return self.acked or self.unknown > 0 or self.open_attempts > 0


def _key(event: Event) -> Key:
    return event["client"], event["shard"], event["sequence"]


def _updates(history: list[Event]) -> dict[Key, _Update]:
    updates: dict[Key, _Update] = collections.defaultdict(_Update)
    for event in history:
        kind = event["event"]
        if kind not in ("invoke", "applied", "refused", "unknown"):
            continue
        update = updates[_key(event)]
        if kind == "invoke":
            update.attempts += 1
            update.open_attempts += 1
            continue
        update.open_attempts -= 1
        if kind == "applied":
            update.answers.append((event["generation"], event["step"]))
        elif kind == "refused":
            update.refused += 1
        else:
            update.unknown += 1
    return updates


def _reported(history: list[Event]) -> set[Key]:
    """Updates that a shard itself declared lost, in its answers to Hello."""
    lost: set[Key] = set()
    for event in history:
        if event["event"] == "hello":
            for sequence in range(event["next"], event["acknowledged"] + 1):
                lost.add((event["client"], event["shard"], sequence))
    return lost


@dataclasses.dataclass
class Verdict:
    """Lists of the updates that are wrong, by what is wrong with them; and counts."""

    acked_lost: list[Key]
    applied_twice: list[Key]
    torn: list[Key]  # some of its cells have it, others have not
    garbled: list[Key]  # a cell that is no whole number
    refused_but_applied: list[Key]
    never_sent: list[Key]  # in the sums, and nobody has sent it
    replies_differ: list[Key]  # a repetition got another answer than the first
    steps_shared: list[Key]  # two updates got the same place in a shard's order
    unreported: list[Key]  # lost, and the shard has not told the client that asked
    false_reports: list[Key]  # declared lost, but there
    counts: dict[str, int]

    # What no mode may ever do. Losing what is in memory only is a matter of the mode.
    NEVER = ("applied_twice", "torn", "garbled", "refused_but_applied", "never_sent",
             "replies_differ", "steps_shared")

    def violations(self, loss_allowed: bool) -> dict[str, int]:
        """{what: how many} of the promises that were broken."""
        names = self.NEVER if loss_allowed else (*self.NEVER, "acked_lost")
        return {name: len(getattr(self, name)) for name in names if getattr(self, name)}

    def summary(self) -> dict[str, int]:
        lists = {field.name: len(getattr(self, field.name)) for field in dataclasses.fields(self)
                 if field.name != "counts"}
        return lists | self.counts


def judge(history: list[Event], sums: Sums) -> Verdict:
    """The Verdict on a run.

    history  events by time
    sums     {(client, shard, sequence): [value of each of its cells]} at the end; updates that are
             not in it count as not applied
    """
    updates = _updates(history)
    reported = _reported(history)
    found: dict[str, list[Key]] = collections.defaultdict(list)
    counts: collections.Counter[str] = collections.Counter()
    for key, update in updates.items():
        cells = sums.get(key, [0.0])
        if any(value != int(value) for value in cells):
            found["garbled"].append(key)
        elif len(set(cells)) > 1:
            found["torn"].append(key)
        # A torn update may have lost its half or done it twice: both is looked at.
        if max(cells) > 1:
            found["applied_twice"].append(key)
        if update.acked and min(cells) < 1:
            found["acked_lost"].append(key)
        if not update.may_be_applied and max(cells) > 0:
            found["refused_but_applied"].append(key)
        # A later owner of the shard repeats the answer under its own generation.
        if len({step for _, step in update.answers}) > 1:
            found["replies_differ"].append(key)
        if not update.acked:
            counts["unknown_applied" if max(cells) > 0 else "unknown_not_applied"] += 1
        counts["repeated"] += update.attempts > 1
    found["never_sent"] = [key for key, cells in sums.items() if key not in updates and any(cells)]
    lost = set(found["acked_lost"])
    asked = _said_hello_after_loss(history, lost)
    found["unreported"] = sorted(key for key in lost & asked if key not in reported)
    found["false_reports"] = sorted(key for key in reported - lost if key in updates)
    found["steps_shared"] = _shared_steps(updates)
    counts["updates"] = len(updates)
    counts["acked"] = sum(update.acked for update in updates.values())
    counts["reported_lost"] = len(reported)
    for name in ("unknown_applied", "unknown_not_applied", "repeated"):
        counts[name] += 0
    lists = {field.name: sorted(found[field.name]) for field in dataclasses.fields(Verdict)
             if field.name != "counts"}
    return Verdict(**lists, counts=dict(counts))


def _said_hello_after_loss(history: list[Event], lost: set[Key]) -> set[Key]:
    """The lost updates whose client has talked to a younger owner of the shard afterwards."""
    generations: dict[Key, int] = collections.defaultdict(int)
    for event in history:
        if event["event"] == "applied":
            generations[_key(event)] = event["generation"]
    youngest: dict[tuple[str, int], int] = collections.defaultdict(int)
    for event in history:
        if event["event"] == "hello":
            place = event["client"], event["shard"]
            youngest[place] = max(youngest[place], event["generation"])
    return {key for key in lost if youngest[key[:2]] > generations[key]}


def _shared_steps(updates: Mapping[Key, _Update]) -> list[Key]:
    """Updates that a shard has given the same number, within one of its lives."""
    owners: dict[tuple[int, int, int], set[Key]] = collections.defaultdict(set)
    for key, update in updates.items():
        for generation, step in update.answers:
            owners[key[1], generation, step].add(key)
    return sorted(key for keys in owners.values() if len(keys) > 1 for key in keys)


def recovery_seconds(history: list[Event], kills: Sequence[tuple[int, int]]) -> list[float]:
    """For each (time in ns, shard) of `kills`: seconds until that shard applied an update again.

    Only updates that were sent after the kill count. Kills that were followed by another one of the
    same shard before it had recovered count with it, from the first.
    """
    sent: dict[Key, int] = {}
    applied: dict[int, list[tuple[int, int]]] = collections.defaultdict(list)
    for event in history:
        if event["event"] == "invoke":
            sent[_key(event)] = event["t"]
        elif event["event"] == "applied":
            applied[event["shard"]].append((event["t"], sent.get(_key(event), 0)))
    seconds = []
    recovered_at: dict[int, int] = collections.defaultdict(int)
    for when, shard in sorted(kills):
        if when < recovered_at[shard]:
            continue
        after = next((at for at, invoked in applied[shard] if invoked > when), None)
        if after is not None:
            recovered_at[shard] = after
            seconds.append((after - when) / 1e9)
    return seconds
