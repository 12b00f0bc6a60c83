"""`dslide conformance`: the package passes it, and clients that make a mistake are told which."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from course import EVERYTHING, Course

import dslide
from dslide import (
    _connection,
    _network,
    _pipeline,
    _rows,
    _scatter,
    _stream,
    _transport,
    arrays,
    first_rows,
    hashing,
    order,
    trainer,
)

Patch = pytest.MonkeyPatch
ROWS = ("gather", "scatter", "first_rows", "top_k")
CHAPTERS = (
    "connecting",
    "models",
    "owners",
    "gather",
    "scatter",
    "sequence",
    "recovery",
    "first-rows",
    "top-k",
    "jobs",
    "training",
    "dense",
    "dropout",
    "sigmoid",
)


class Examiner:
    """A `dslide conformance` that runs."""

    def __init__(self, bin_dir: pathlib.Path, folder: pathlib.Path) -> None:
        self._process = subprocess.Popen(
            [bin_dir / "dslide", "conformance", "-o", "json", "--listen", "127.0.0.1:0"]
            + ["--course", folder, "--until-stdin-ends"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.announced = json.loads(self._process.stdout.readline())

    def end(self) -> tuple[dict[str, Any], int, str]:
        """The verdicts, the exit code, and what was told on the way."""
        out, told = self._process.communicate(timeout=60)
        return json.loads(out.splitlines()[-1]), self._process.returncode, told

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def examiner(bin_dir: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[Examiner]:
    started = Examiner(bin_dir, tmp_path / "course")
    yield started
    started.kill()


def test_the_package_passes_every_chapter(examiner: Examiner) -> None:
    Course(pathlib.Path(examiner.announced["course"])).run()
    verdicts, code, told = examiner.end()
    assert [c["chapter"] for c in verdicts["chapters"]] == list(CHAPTERS)
    assert {c["verdict"] for c in verdicts["chapters"]} == {"pass"}, told
    assert verdicts["passed"] is True
    assert (code, told) == (0, "")


def test_what_a_client_does_not_do_is_not_seen(examiner: Examiner) -> None:
    with dslide.connect(examiner.announced["coordinator"]):
        pass
    verdicts, code, told = examiner.end()
    seen = {c["chapter"]: c["verdict"] for c in verdicts["chapters"]}
    assert seen == {name: "not seen" for name in CHAPTERS} | {"connecting": "pass"}
    assert (code, told) == (1, "")


# --- Clients that make one mistake ---------------------------------------------------------------


def modulo_owners(patch: Patch) -> None:
    def places(self: Any, table: Any, ids: Any) -> list[Any]:
        return [np.flatnonzero(ids % len(self.shards) == s) for s in range(len(self.shards))]

    patch.setattr(_connection.Connection, "places", places)


def unsorted(patch: Patch) -> None:
    patch.setattr(_rows, "_ascending", lambda ids: (ids, None))


def repeats_overwrite(patch: Patch) -> None:
    def last(inverse: Any, values: Any) -> Any:
        sums = np.zeros((inverse.max() + 1, *values.shape[1:]), np.float32)
        sums[inverse] = values
        return sums

    patch.setattr(_rows, "_added_up", last)


def no_deadline(patch: Patch) -> None:
    once = _transport.Peer.once

    async def without(self: Any, method: str, request: Any, timeout: Any) -> Any:
        return await once(self, method, request, None)  # type: ignore[arg-type]

    patch.setattr(_transport.Peer, "once", without)


def spaced_request_ids(patch: Patch) -> None:
    patch.setattr(_transport.Settings, "request", lambda self: "two words")


def no_good_bye(patch: Patch) -> None:
    async def nothing(self: Any) -> None:
        pass

    patch.setattr(_scatter.ScatterQueue, "close", nothing)


def gaps(patch: Patch) -> None:
    head = _scatter.ScatterQueue._messages

    def skipping(self: Any, *args: Any) -> Any:
        self._sequence += 1
        return head(self, *args)

    patch.setattr(_scatter.ScatterQueue, "_messages", skipping)


def reused_numbers(patch: Patch) -> None:
    apply = _scatter.ScatterQueue.apply

    async def again(self: Any, *args: Any) -> None:
        self._sequence, self._settled = 1, self._generation > 0
        await apply(self, *args)

    patch.setattr(_scatter.ScatterQueue, "apply", again)


def new_number_on_retry(patch: Patch) -> None:
    async def renumber(self: Any) -> None:
        self._sequence += 1

    patch.setattr(_scatter.ScatterQueue, "_greet_again", renumber)


def old_generation(patch: Patch) -> None:
    hello = _stream.ShardStream._hello

    def once(self: Any) -> None:
        before = self._generation
        hello(self)
        self._generation = before or self._generation
        for sent in self._unanswered:
            self._change_envelope(sent, generation=self._generation)

    patch.setattr(_stream.ShardStream, "_hello", once)


def one_greeting(patch: Patch) -> None:
    hello = _stream.ShardStream._hello

    def first(self: Any) -> None:
        if self._generation == 0:
            hello(self)

    patch.setattr(_stream.ShardStream, "_hello", first)


def other_first_rows(patch: Patch) -> None:
    patch.setattr(first_rows, "_INIT_PART", 1)


def best_of_one_shard(patch: Patch) -> None:
    from dslide import _predictions

    best = _predictions._best_of
    patch.setattr(_predictions, "_best_of", lambda answers, n, k: best(answers[:1], n, k))


def file_order(patch: Patch) -> None:
    patch.setattr(
        order.EpochOrder, "points_at", lambda self, first, count: np.arange(first, first + count)
    )


def other_family(patch: Patch) -> None:
    made = hashing.hash_family

    def swapped(spec: Any, dim: int) -> Any:
        other = type(spec)()
        other.CopyFrom(spec)
        other.seed = spec.seed + 1
        return made(other, dim)

    patch.setattr(_network.hashing, "hash_family", swapped)


def cut_off_bf16(patch: Patch) -> None:
    def cut(x: Any) -> Any:
        return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)

    patch.setattr(arrays, "to_bf16", cut)


def sums_without_maxima(patch: Patch) -> None:
    def naive(parts: Any, batch: int) -> Any:
        highest, sums = _network._sums_of(parts, batch)
        return highest.max(axis=0) + np.log(sums.sum(axis=0))

    patch.setattr(_network, "softmax_sums", naive)


def unmasked(patch: Patch) -> None:
    patch.setattr(_network, "mask_gradient", lambda activated, probability, gradient: gradient)


def constant_rate(patch: Patch) -> None:
    patch.setattr(_pipeline, "learning_rate", lambda optimizer, step: optimizer.learning_rate)


def unfinished_leases(patch: Patch) -> None:
    """Reports a lease as soon as it has it, before anything is trained."""
    train = trainer.Trainer._train_chunk

    def early(self: Any, lease: Any) -> bool:
        report = trainer.coordinator_pb2.WorkReport(lease_id=lease.lease_id, samples=lease.count)
        self._leases.finish(report)
        self._leases.ask(want_work=False)
        return train(self, lease)

    patch.setattr(trainer.Trainer, "_train_chunk", early)


@dataclass(frozen=True)
class Told:
    """What must be said of a mistake; `found` and `expected` in part."""

    mistake: Callable[[Patch], None]
    chapter: str
    call: str
    field: str
    found: str
    expected: str
    tasks: tuple[str, ...] = ROWS


TOLD = [
    Told(modulo_owners, "owners", "Gather", "rows.row_ids", "row ", "by the owners of the cluster"),
    Told(unsorted, "gather", "Gather", "rows.row_ids", "strictly ascending", "equal ids once"),
    Told(repeats_overwrite, "scatter", "Scatter", "rows.values", "scatter 1", "are added up"),
    Told(no_deadline, "connecting", "Hello", "the deadline", "absent", "for every call"),
    Told(spaced_request_ids, "connecting", "Gather", "x-request-id", "two words", "visible ASCII"),
    Told(no_good_bye, "sequence", "CloseClient", "client_id", "never sent", "at the end"),
    Told(gaps, "sequence", "Scatter", "envelope.sequence", "2", "1: this client's changes"),
    Told(
        reused_numbers,
        "sequence",
        "Scatter",
        "envelope.sequence",
        "1, which came before with another content",
        "2: a number belongs to one content",
    ),
    Told(
        new_number_on_retry,
        "recovery",
        "Scatter",
        "envelope.sequence",
        "with the content of 2, whose answer was lost",
        "2: what has no answer is sent again unchanged",
    ),
    Told(
        old_generation,
        "sequence",
        "HeadForward",
        "envelope.generation",
        "1",
        "2, that of the answer to Hello",
        ("train",),
    ),
    Told(
        one_greeting,
        "recovery",
        "Hello",
        "generation",
        "after STALE_GENERATION",
        "the shard's new owner",
        ("train",),
    ),
    Told(other_first_rows, "first-rows", "the answer of first_rows", "the answer's row", "-", ""),
    Told(best_of_one_shard, "top-k", "the answer of top_k", "the answer's row", "in column", ""),
    Told(file_order, "training", "EmbedForward", "rows", "[", "order is point", ("train",)),
    Told(other_family, "training", "HeadForward", "fingerprints", "", "by simhash", ("train",)),
    Told(
        cut_off_bf16,
        "training",
        "HeadForward",
        "hidden",
        "lower 16 bits were cut off",
        "ties to even",
        ("train",),
    ),
    Told(sums_without_maxima, "training", "HeadBackward", "log_partitions", "", "", ("train",)),
    Told(
        unmasked, "training", "EmbedBackward", "gradient", "not 0 where", "no gradient", ("train",)
    ),
    Told(constant_rate, "training", "HeadBackward", "learning_rate", "0.02", "step 1", ("train",)),
    Told(
        unfinished_leases,
        "jobs",
        "AcquireWork",
        "finished.lease_id",
        "when 0 of 64 points were trained",
        "every step of the lease",
        ("train",),
    ),
]


@pytest.mark.parametrize("told", TOLD, ids=[told.mistake.__name__ for told in TOLD])
def test_a_mistake_is_told_exactly(examiner: Examiner, monkeypatch: Patch, told: Told) -> None:
    told.mistake(monkeypatch)
    assert set(told.tasks) <= set(EVERYTHING)
    # Most are refused by the shards, too: the client stops there.
    with contextlib.suppress(dslide.DslideError):
        Course(pathlib.Path(examiner.announced["course"])).run(told.tasks)
    verdicts, code, said = examiner.end()
    assert code == 1
    chapter = next(c for c in verdicts["chapters"] if c["chapter"] == told.chapter)
    assert chapter["verdict"] == "fail", said
    mistakes = [
        m for m in chapter["mistakes"] if (m["call"], m["field"]) == (told.call, told.field)
    ]
    assert mistakes, said
    assert told.found in mistakes[0]["found"] and told.expected in mistakes[0]["expected"], said
    assert mistakes[0]["see"].startswith("docs/understand/wire.md#")
    assert f"WRONG [{told.chapter}] {told.call}" in said
