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

    def __init__(self, bin_dir: pathlib.Path, folder: pathlib.Path, chapters: str = "") -> None:
        self._process = subprocess.Popen(
            [bin_dir / "dslide", "conformance", "-o", "json", "--listen", "127.0.0.1:0"]
            + ["--course", folder, "--until-stdin-ends", "--chapters", chapters],
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
def examine(bin_dir: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[Callable[[str], Examiner]]:
    """Starts one for some chapters."""
    with contextlib.ExitStack() as ending:

        def start(chapters: str) -> Examiner:
            started = Examiner(bin_dir, tmp_path / "course", chapters)
            ending.callback(started.kill)
            return started

        yield start


@pytest.fixture
def examiner(examine: Callable[[str], Examiner]) -> Examiner:
    return examine("")


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


def test_chapters_that_a_client_does_not_take_are_left_out(
    examine: Callable[[str], Examiner],
) -> None:
    examiner = examine("connecting,models,owners,gather")
    Course(pathlib.Path(examiner.announced["course"])).run()
    verdicts, code, told = examiner.end()
    seen = {c["chapter"]: c["verdict"] for c in verdicts["chapters"]}
    taken = ("connecting", "models", "owners", "gather")
    assert seen == {name: "pass" if name in taken else "left out" for name in CHAPTERS}
    assert (code, told) == (0, "")


@pytest.mark.parametrize(
    ("chapters", "said"),
    [
        ("gather,dens", 'there is no chapter "dens"; they are ' + ", ".join(CHAPTERS)),
        ("jobs,owners", "add at least one of gather, scatter, first-rows, top-k, training, dense"),
    ],
)
def test_chapters_that_cannot_be_are_refused(
    bin_dir: pathlib.Path, tmp_path: pathlib.Path, chapters: str, said: str
) -> None:
    done = subprocess.run(
        [bin_dir / "dslide", "conformance", "--course", tmp_path / "c", "--chapters", chapters],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and said in done.stderr
    assert not (tmp_path / "c").exists()


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


def early_rounding(patch: Patch) -> None:
    activate = _network.activate
    patch.setattr(
        _network, "activate", lambda x, dropout, layer, _: activate(x, dropout, layer, True)
    )


def dense_without_activation(patch: Patch) -> None:
    activate = _network.activate

    def only_last(x: Any, dropout: Any, layer: int, rounds: bool) -> Any:
        return activate(x, dropout, layer, rounds) if rounds else x

    patch.setattr(_network, "activate", only_last)


def dense_rows_everywhere(patch: Patch) -> None:
    join = _network.join_dense

    def everywhere(table: Any, parts: Any) -> Any:
        layer = join(table, parts)
        layer.rows[:] = [np.arange(table.rows, dtype=np.uint32) for _ in parts]
        return layer

    patch.setattr(_network, "join_dense", everywhere)


def another_draw_of_units(patch: Patch) -> None:
    patch.setattr(_network, "_HIDDEN_DROPOUT", 1)


def another_draw_of_features(patch: Patch) -> None:
    patch.setattr(_network, "_INPUT_DROPOUT", 1)


def unscaled_units(patch: Patch) -> None:
    activate = _network.activate

    def unscaled(x: Any, dropout: Any, layer: int, rounds: bool) -> Any:
        y = activate(x, dropout, layer, rounds)
        return y * (np.float32(1) - np.float32(dropout.probability))

    patch.setattr(_network, "activate", unscaled)


def unscaled_gradients(patch: Patch) -> None:
    mask = _network.mask_gradient
    patch.setattr(
        _network, "mask_gradient", lambda activated, p, gradient: mask(activated, 0, gradient)
    )


def shared_targets(patch: Patch) -> None:
    """Each of a sample's labels has a part of 1, as with softmax."""
    forward = _pipeline.StepPipeline._after_embed_forward

    def shared(self: Any, step: Any, answers: Any) -> None:
        counts = sum(np.diff(mine.offsets) for mine in step.batch.labels)
        step.batch.targets = (1 / counts).astype(np.float32)
        forward(self, step, answers)

    patch.setattr(_pipeline.StepPipeline, "_after_embed_forward", shared)


def partitions_of_the_sigmoid(patch: Patch) -> None:
    combine = _network.combine_loss

    def with_partitions(*args: Any) -> Any:
        loss = combine(*args)
        return _network.Loss(loss.loss_sum, np.zeros(len(args[3]), np.float32))

    patch.setattr(_network, "combine_loss", with_partitions)


def softmax_of_the_sigmoid(patch: Patch) -> None:
    """The loss that it reports is that of softmax."""
    combine = _network.combine_loss

    def other(loss: str, *args: Any) -> Any:
        found = combine(loss, *args)
        return _network.Loss(combine("softmax", *args).loss_sum, found.log_partitions)

    patch.setattr(_network, "combine_loss", other)


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
    chapters: str = ""  # that the client takes; all


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
    Told(
        early_rounding, "dense", "HeadForward", "hidden", "", "only the last", ("train",), "dense"
    ),
    Told(
        dense_without_activation,
        "dense",
        "HeadForward",
        "hidden",
        "",
        "max(W h + b, 0) of each of the 2 dense layers",
        ("train",),
        "dense",
    ),
    Told(
        dense_rows_everywhere,
        "dense",
        "DenseScatter",
        "gradients.row_ids",
        "[0, 1, 2, 3",
        'the rows of table "second" that this shard has answered',
        ("train",),
        "dense",
    ),
    Told(
        unmasked,
        "dense",
        "DenseScatter",
        "gradients.values",
        "",
        'the sum over the samples of g times the layer\'s input, of table "second"',
        ("train",),
        "dense",
    ),
    Told(
        another_draw_of_units,
        "dropout",
        "HeadForward",
        "hidden",
        "",
        "hidden dropout",
        ("train",),
        "dropout",
    ),
    Told(
        another_draw_of_features,
        "dropout",
        "EmbedForward",
        "rows",
        "[",
        "without those that input dropout draws below p",
        ("train",),
        "dropout",
    ),
    Told(
        unscaled_units,
        "dropout",
        "HeadForward",
        "hidden",
        "which is not scaled",
        "times 1 / (1 - p)",
        ("train",),
        "dropout",
    ),
    Told(
        unscaled_gradients,
        "dropout",
        "EmbedBackward",
        "gradient",
        "",
        "times 1 / (1 - p) where a unit is not 0, p = 0.3",
        ("train",),
        "dropout",
    ),
    Told(
        shared_targets,
        "sigmoid",
        "HeadForward",
        "label_targets",
        "0.",
        "1, with the loss sigmoid",
        ("train",),
        "sigmoid",
    ),
    Told(
        partitions_of_the_sigmoid,
        "sigmoid",
        "HeadBackward",
        "log_partitions",
        "32 numbers",
        "0: the loss sigmoid has none",
        ("train",),
        "sigmoid",
    ),
    Told(
        softmax_of_the_sigmoid,
        "jobs",
        "AcquireWork",
        "finished.loss_sum",
        "for positions",
        "the sum of the shards' sums less that of target * logit",
        ("train",),
        "sigmoid,jobs",
    ),
]


@pytest.mark.parametrize(
    "told", TOLD, ids=[f"{told.mistake.__name__}-{told.chapter}" for told in TOLD]
)
def test_a_mistake_is_told_exactly(
    examine: Callable[[str], Examiner], monkeypatch: Patch, told: Told
) -> None:
    examiner = examine(told.chapters)
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
