"""The trainer learns what the C++ trainer learns, alone and beside it."""

from __future__ import annotations

import copy
import json
import pathlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE, SMALL_SPEC, restore_checkpoint, take_checkpoint

import dslide
from dslide._best_epoch import best_checkpoint
from dslide._stream import ShardStream


def _spec(**changes: Any) -> dict[str, Any]:
    spec = copy.deepcopy(SMALL_SPEC)
    training = changes.pop("training", {})
    spec.update(changes)
    spec["training"].update(training)
    return spec


DEEP = _spec(
    name="deep",
    activations="f32",
    training={"transform": "tf_idf"},
    tables=[
        {
            "name": "input",
            "role": "embedding",
            "dim": 24,
            "bias_row": True,
            "optimizer": {"learning_rate": 0.01},
        },
        {
            "name": "hidden",
            "role": "dense",
            "rows": 20,
            "dim": 24,
            "optimizer": {"learning_rate": 0.01},
        },
        {
            "name": "labels",
            "role": "head",
            "dim": 20,
            "optimizer": {"learning_rate": 0.01},
            "head": {"loss": "sigmoid", "hash": {"family": "dwta", "codes_per_table": 3}},
        },
    ],
)
SPECS = {
    "bf16": _spec(name="half", training={"input_dropout": 0.2, "hidden_dropout": 0.3}),
    "dense, sigmoid, dwta, tf-idf": DEEP,
    "all rows, raw": _spec(
        name="every",
        training={"transform": "raw", "patience_epochs": 1},
        tables=[
            {"name": "input", "role": "embedding", "dim": 16, "optimizer": {"learning_rate": 0.01}},
            {
                "name": "labels",
                "role": "head",
                "dim": 16,
                "head": {"max_active": 0, "tail_rows": 0},
            },
        ],
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_learns_as_the_cpp_trainer_does(
    name: str, run_dslide: Any, small_data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(SPECS[name]))
    train, test = small_data / "train.txt", small_data / "test.txt"
    theirs = run_dslide(
        "train", "-q", "-o", "json", "--data", train, "--eval", test, "--model", spec, "--shards", 2
    )
    with (
        dslide.local(shards=2, threads=2, timeout=PATIENCE) as cluster,
        dslide.Trainer(cluster, spec, train, progress=False) as trainer,
    ):
        report = trainer.train()
        precision = trainer.evaluate(test)
        logits, labels = trainer.predict(test, k=3)
    assert report.steps == theirs["steps"]
    # Sums in float32 of the same numbers in another order (dense layers) or the same one.
    assert report.last_loss == pytest.approx(theirs["loss"], rel=2e-4)
    assert precision.at_1 == pytest.approx(theirs["p_at_1"], abs=0.01)
    assert precision.at_5 == pytest.approx(theirs["p_at_5"], abs=0.01)
    assert labels.shape == logits.shape == (500, 3)
    assert (np.diff(logits, axis=1) <= 0).all()


def test_arrays_teach_what_the_file_does(small_data: pathlib.Path) -> None:
    file = dslide.read_sparse(small_data / "train.txt")
    x = (file.features.values, file.features.ids, file.features.offsets)
    labels = np.split(file.labels.ids, file.labels.offsets[1:-1])
    arrays = dslide.from_arrays(x, labels, num_features=1000, num_labels=5000)
    losses = []
    for data in (file, arrays):
        with (
            dslide.local(shards=2, threads=2, timeout=PATIENCE) as cluster,
            dslide.Trainer(cluster, SMALL_SPEC, data, progress=False) as trainer,
        ):
            losses.append(trainer.train().last_loss)
    assert losses[0] == losses[1]


def test_trains_beside_a_cpp_trainer(
    bin_dir: pathlib.Path, small_data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text(
        json.dumps(_spec(name="shared", training={"max_epochs": 6, "validation_fraction": 0}))
    )
    train = small_data / "train.txt"
    with dslide.local(shards=2, threads=2, timeout=PATIENCE) as cluster:
        with (
            dslide.Trainer(cluster, spec, train, job="both", progress=False) as trainer,
            subprocess.Popen(
                [
                    bin_dir / "dslide",
                    "train",
                    "-q",
                    "-o",
                    "json",
                    "--data",
                    train,
                    "--model",
                    spec,
                    "--cluster",
                    cluster.address,
                    "--job",
                    "both",
                ],
                stdout=subprocess.PIPE,
                text=True,
            ) as other,
        ):
            report = trainer.train()
            theirs = json.loads(other.communicate(timeout=600)[0].splitlines()[-1])
            assert other.returncode == 0
            status = cluster.job_status("both")
        assert status.finished
        assert report.steps > 0
        # Every step is one update of each shard's part of a table: none is lost, none doubled.
        steps = report.steps + theirs["steps"]
        for part in cluster.model("shared").describe():
            assert {table.applied_steps for table in part.tables} <= {steps}


def test_wrong_data_is_refused(small_data: pathlib.Path, cluster: dslide.LocalCluster) -> None:
    with pytest.raises(dslide.InvalidArgumentError, match="data is list"):
        dslide.Trainer(cluster, SMALL_SPEC, [1])
    train = small_data / "train.txt"
    with pytest.raises(dslide.InvalidArgumentError, match="must be one embedding"):
        dslide.Trainer(cluster, _spec(tables=SMALL_SPEC["tables"][1:]), train)
    with dslide.Trainer(
        cluster, _spec(name="other"), train, max_steps=2, job="wrong", progress=False
    ) as trainer:
        assert trainer.train().steps == 2
        with pytest.raises(dslide.InvalidArgumentError, match="9999 features"):
            trainer.evaluate(dslide.from_arrays(([1.0], [0], [0, 1]), [[0]], num_features=9999))
    other = dslide.from_arrays(([1.0], [0], [0, 1]), [[0]], num_features=1000, num_labels=5000)
    with (
        pytest.raises(dslide.InvalidArgumentError) as caught,
        dslide.Trainer(cluster, _spec(name="other"), other, job="wrong", progress=False) as trainer,
    ):
        trainer.train()
    assert caught.value.reason == "JOB_DIFFERS"


def test_progress_says_where_it_is(small_data: pathlib.Path, bin_dir: pathlib.Path) -> None:
    script = (
        "import dslide, sys\nwith dslide.local(threads=2) as c:\n"
        f"    with dslide.Trainer(c, {SMALL_SPEC}, sys.argv[1]) as t: t.train()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(small_data / "train.txt")],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert "epoch 3/3" in done.stderr
    assert "P@1" in done.stderr
    assert done.stdout == ""


def test_a_job_is_cancelled_and_deleted_once_it_has_ended(small_data: pathlib.Path) -> None:
    spec = _spec(name="night", training={"max_epochs": 100_000, "validation_fraction": 0})
    train = small_data / "train.txt"
    with dslide.local(shards=2, timeout=PATIENCE) as cluster:

        def learn() -> dslide.Report:
            with (
                dslide.connect(cluster.address) as client,
                dslide.Trainer(client, spec, train, progress=False) as trainer,
            ):
                return trainer.train()

        with ThreadPoolExecutor(1) as threads:
            trainer = threads.submit(learn)
            while not cluster.status().jobs or cluster.job_status("train-night").epoch < 2:
                time.sleep(0.01)
            with pytest.raises(dslide.FailedPreconditionError, match="cancel it first"):
                cluster.delete_job("train-night")
            ended = cluster.cancel_job("train-night")
            assert ended.cancelled and ended.finished
            report = trainer.result(timeout=600)
        assert report.cancelled and report.steps > 0
        assert learn().steps == 0  # it has ended, whoever joins
        cluster.delete_job("train-night")
        with pytest.raises(dslide.NotFoundError):
            cluster.job_status("train-night")


def test_checkpoints_of_the_cluster_show_whole_steps(
    small_data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    spec = _spec(
        name="cut", training={"max_epochs": 12, "in_flight_steps": 3, "validation_fraction": 0}
    )
    train = small_data / "train.txt"
    rows = tmp_path / "rows"
    with dslide.local(shards=3, threads=3, data_dir=rows, timeout=PATIENCE) as cluster:

        def learn() -> dslide.Report:
            with (
                dslide.connect(cluster.address) as client,
                dslide.Trainer(client, spec, train, progress=False) as trainer,
            ):
                return trainer.train()

        with ThreadPoolExecutor(2) as threads:
            trainers = [threads.submit(learn) for _ in range(2)]
            while not cluster.status().jobs or cluster.job_status("train-cut").epoch < 2:
                time.sleep(0.01)
            taken = take_checkpoint(cluster)
            assert not taken.evicted
            restore_checkpoint(cluster, taken.checkpoint_id)
            # Trainers begin anew from there, and end.
            reports = [trainer.result(timeout=600) for trainer in trainers]
        assert max(report.new_beginnings for report in reports) >= 1
        assert cluster.job_status("train-cut").finished
        restore_checkpoint(cluster, taken.checkpoint_id)
        # At the cut every step is everywhere, or nowhere.
        steps = {
            table.applied_steps for part in cluster.model("cut").describe() for table in part.tables
        }
        assert len(steps) == 1 and steps.pop() > 0


def test_a_new_beginning_waits_for_the_cluster(
    small_data: pathlib.Path, cluster: dslide.LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[ShardStream] = []
    closed: list[ShardStream] = []
    failures = 3

    class Stream(ShardStream):
        """The second shard cannot be reached yet; the first one's stream is open then."""

        def __init__(self, *arguments: Any) -> None:
            nonlocal failures
            if len(opened) % 2 == 1 and failures:
                failures -= 1
                opened.pop()
                raise dslide.UnavailableError("is being restored")
            super().__init__(*arguments)
            opened.append(self)

        def close(self) -> None:
            closed.append(self)
            super().close()

    with dslide.Trainer(
        cluster, _spec(name="anew"), small_data / "train.txt", max_steps=2, progress=False
    ) as trainer:
        monkeypatch.setattr("dslide.trainer.ShardStream", Stream)
        trainer._begin_anew(dslide.DataLossError("rows went back"))
        assert len(opened) == 2 and len(closed) == 3 and failures == 0
        assert trainer.train().steps == 2
    assert len(closed) == 5


def test_the_best_epochs_checkpoint_is_named_as_in_cpp() -> None:
    assert best_checkpoint("night") == "best-night"
    assert best_checkpoint("a" * 60) == f"best-{'a' * 50}-92b9e111"
