"""`dslide conformance`: the package passes it, and clients that make a mistake are told which."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mistakes
import pytest
from course import EVERYTHING, Course

import dslide

ROWS, TRAIN = ("gather", "scatter", "first_rows", "top_k"), ("train",)
CHAPTERS = (
    *("connecting", "models", "owners", "gather", "scatter", "sequence", "recovery", "first-rows"),
    *("top-k", "jobs", "training", "dense", "dropout", "sigmoid"),
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


@dataclass(frozen=True)
class Told:
    """What must be said of a mistake; `found` and `expected` in part."""

    mistake: Callable[[pytest.MonkeyPatch], None]
    chapter: str
    call: str
    field: str
    found: str
    expected: str
    tasks: tuple[str, ...] = ROWS
    chapters: str = ""  # that the client takes; all

    def __str__(self) -> str:
        return f"{self.mistake.__name__}-{self.chapter}"


def trained(mistake: Callable[[pytest.MonkeyPatch], None], chapter: str, *told: str) -> Told:
    """Of a client that trains, of which no more is asked than what the chapter is about."""
    alone = chapter if chapter in ("dense", "dropout", "sigmoid") else ""
    return Told(mistake, chapter, *told, tasks=TRAIN, chapters=alone)


TOLD = [
    Told(
        mistakes.modulo_owners,
        "owners",
        "Gather",
        "rows.row_ids",
        "row ",
        "by the owners of the cluster",
    ),
    Told(
        mistakes.unsorted,
        "gather",
        "Gather",
        "rows.row_ids",
        "strictly ascending",
        "equal ids once",
    ),
    Told(
        mistakes.repeats_overwrite, "scatter", "Scatter", "rows.values", "scatter 1", "are added up"
    ),
    Told(mistakes.no_deadline, "connecting", "Hello", "the deadline", "absent", "for every call"),
    Told(
        mistakes.spaced_request_ids,
        "connecting",
        "Gather",
        "x-request-id",
        "two words",
        "visible ASCII",
    ),
    Told(mistakes.no_good_bye, "sequence", "CloseClient", "client_id", "never sent", "at the end"),
    Told(
        mistakes.gaps, "sequence", "Scatter", "envelope.sequence", "2", "1: this client's changes"
    ),
    Told(
        mistakes.reused_numbers,
        "sequence",
        "Scatter",
        "envelope.sequence",
        "1, which came before with another content",
        "2: a number belongs to one content",
    ),
    Told(
        mistakes.new_number_on_retry,
        "recovery",
        "Scatter",
        "envelope.sequence",
        "with the content of 2, whose answer was lost",
        "2: what has no answer is sent again unchanged",
    ),
    trained(
        mistakes.old_generation,
        "sequence",
        "HeadForward",
        "envelope.generation",
        "1",
        "2, that of the answer to Hello",
    ),
    trained(
        mistakes.one_greeting,
        "recovery",
        "Hello",
        "generation",
        "after STALE_GENERATION",
        "the shard's new owner",
    ),
    Told(
        mistakes.other_first_rows,
        "first-rows",
        "the answer of first_rows",
        "the answer's row",
        "-",
        "",
    ),
    Told(
        mistakes.best_of_one_shard,
        "top-k",
        "the answer of top_k",
        "the answer's row",
        "in column",
        "",
    ),
    trained(mistakes.file_order, "training", "EmbedForward", "rows", "[", "order is point"),
    trained(mistakes.other_family, "training", "HeadForward", "fingerprints", "", "by simhash"),
    trained(
        mistakes.cut_off_bf16,
        "training",
        "HeadForward",
        "hidden",
        "lower 16 bits were cut off",
        "ties to even",
    ),
    trained(mistakes.sums_without_maxima, "training", "HeadBackward", "log_partitions", "", ""),
    trained(
        mistakes.unmasked, "training", "EmbedBackward", "gradient", "not 0 where", "no gradient"
    ),
    trained(mistakes.constant_rate, "training", "HeadBackward", "learning_rate", "0.02", "step 1"),
    trained(
        mistakes.unfinished_leases,
        "jobs",
        "AcquireWork",
        "finished.lease_id",
        "when 0 of 64 points were trained",
        "every step of the lease",
    ),
    trained(mistakes.early_rounding, "dense", "HeadForward", "hidden", "", "only the last"),
    trained(
        mistakes.dense_without_activation,
        "dense",
        "HeadForward",
        "hidden",
        "",
        "max(W h + b, 0) of each of the 2 dense layers",
    ),
    trained(
        mistakes.dense_rows_everywhere,
        "dense",
        "DenseScatter",
        "gradients.row_ids",
        "[0, 1, 2, 3",
        'the rows of table "second" that this shard has answered',
    ),
    trained(
        mistakes.unmasked,
        "dense",
        "DenseScatter",
        "gradients.values",
        "",
        'the sum over the samples of g times the layer\'s input, of table "second"',
    ),
    trained(
        mistakes.another_draw_of_units, "dropout", "HeadForward", "hidden", "", "hidden dropout"
    ),
    trained(
        mistakes.another_draw_of_features,
        "dropout",
        "EmbedForward",
        "rows",
        "[",
        "without those that input dropout draws below p",
    ),
    trained(
        mistakes.unscaled_units,
        "dropout",
        "HeadForward",
        "hidden",
        "which is not scaled",
        "times 1 / (1 - p)",
    ),
    trained(
        mistakes.unscaled_gradients,
        "dropout",
        "EmbedBackward",
        "gradient",
        "",
        "times 1 / (1 - p) where a unit is not 0, p = 0.3",
    ),
    trained(
        mistakes.shared_targets,
        "sigmoid",
        "HeadForward",
        "label_targets",
        "0.",
        "1, with the loss sigmoid",
    ),
    trained(
        mistakes.partitions_of_the_sigmoid,
        "sigmoid",
        "HeadBackward",
        "log_partitions",
        "32 numbers",
        "0: the loss sigmoid has none",
    ),
    Told(
        mistakes.softmax_of_the_sigmoid,
        "jobs",
        "AcquireWork",
        "finished.loss_sum",
        "for positions",
        "the sum of the shards' sums less that of target * logit",
        TRAIN,
        "sigmoid,jobs",
    ),
]


@pytest.mark.parametrize("told", TOLD, ids=str)
def test_a_mistake_is_told_exactly(
    examine: Callable[[str], Examiner], monkeypatch: pytest.MonkeyPatch, told: Told
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
