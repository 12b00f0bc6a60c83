"""Jobs, operations, checkpoints and served predictions, blocking and for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import json
import pathlib
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest
from conftest import SMALL_SPEC, take_checkpoint

import dslide
import dslide.serving


def _methods(kind: type) -> dict[str, str]:
    return {
        name: str(inspect.signature(method))
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize(
    "blocking, awaited",
    [
        (dslide.Client, dslide.aio.AsyncClient),
        (dslide.Model, dslide.aio.AsyncModel),
        (dslide.serving.PredictionClient, dslide.serving.AsyncPredictionClient),
    ],
)
def test_asyncio_has_what_threads_have(blocking: type, awaited: type) -> None:
    ours, theirs = _methods(blocking), _methods(awaited)
    assert ours.keys() == theirs.keys()
    for name, signature in ours.items():
        assert theirs[name].replace("AsyncModel", "Model") == signature, name


def test_jobs_are_listed_described_ended_and_deleted(
    cluster: dslide.LocalCluster, small_data: pathlib.Path
) -> None:
    spec = {**SMALL_SPEC, "name": "listed"}
    train = small_data / "train.txt"
    with dslide.Trainer(cluster, spec, train, job="one", max_steps=2, progress=False) as trainer:
        trainer.train()
        assert "one" in [job.job for job in cluster.list_jobs()]
        assert cluster.job_status("one").model == "listed"
        with pytest.raises(dslide.FailedPreconditionError) as refused:
            cluster.delete_job("one")
        assert refused.value.reason == "JOB_RUNS"
        assert cluster.cancel_job("one").cancelled
    cluster.delete_job("one")
    assert "one" not in [job.job for job in cluster.list_jobs()]
    assert "listed" in [model.name for model in cluster.list_models()]
    cluster.drop_model("listed")
    assert "listed" not in [model.name for model in cluster.list_models()]


def test_checkpoints_are_verified_and_pruned(cluster: dslide.LocalCluster) -> None:
    taken = [take_checkpoint(cluster).checkpoint_id for _ in range(2)]
    assert cluster.verify_cluster_checkpoint(taken[1]).checkpoint_id == taken[1]
    cluster.prune_cluster_checkpoints(keep=1)
    there = [checkpoint.checkpoint_id for checkpoint in cluster.list_cluster_checkpoints()]
    assert len(there) == 1
    assert there[0] >= taken[1]
    operations = cluster.list_operations()
    assert "verify-cluster-checkpoint" in [operation.kind for operation in operations]
    assert cluster.cancel_operation(operations[0].operation_id).done
    with pytest.raises(dslide.NotFoundError):
        cluster.cancel_operation("nobody")


@pytest.fixture(scope="module")
def server(
    bin_dir: pathlib.Path, cluster: dslide.LocalCluster, small_data: pathlib.Path
) -> Iterator[str]:
    """The address of `dslide serve` of a network in the cluster."""
    spec = {**SMALL_SPEC, "name": "served"}
    train = small_data / "train.txt"
    with dslide.Trainer(cluster, spec, train, max_steps=20, progress=False) as trainer:
        trainer.train()
    command = [
        *(bin_dir / "dslide", "serve", "--cluster", cluster.address, "--name", "served"),
        *("--listen", "127.0.0.1:0", "--http", "", "--admin", "", "-o", "json"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["grpc"]
        finally:
            process.terminate()


def test_predictions_are_served(server: str, cluster: dslide.LocalCluster) -> None:
    hidden = np.abs(np.random.default_rng(1).normal(size=(300, 32))).astype(np.float32)
    with dslide.serving.connect(server) as client:
        model = client.describe()
        assert (model.model, model.hidden_dim) == ("served", 32)
        found = client.predict(hidden=hidden, k=3, mode="exact")
        by_id = client.predict(features=[{3: 1.0, 17: 0.5}], k=4)
        assert len(by_id[0].ids) == len(by_id[0].scores) == 4
        for wrong, words in (
            ({}, "give one of"),
            ({"texts": "one"}, "must be a list"),
            ({"hidden": hidden, "mode": "best"}, "mode is 'best'"),
            ({"features": [{1: 1.0, "a": 1.0}]}, "all be ids"),
        ):
            with pytest.raises(dslide.InvalidArgumentError, match=words):
                client.predict(**wrong)  # type: ignore[arg-type]
    best = cluster.model("served").top_k("labels", hidden, 3)
    assert len(found) == 300
    assert [prediction.mode for prediction in found] == ["exact"] * 300
    # The model's activations are bf16: the server rounds the vectors, the client does not.
    agree = [row.ids[0] == int(ids[0]) for row, ids in zip(found, best.ids)]
    assert np.mean(agree) > 0.9

    async def ask() -> list[dslide.serving.Prediction]:
        async with dslide.serving.connect_async(server) as client:
            return await client.predict(hidden=hidden, k=3, mode="exact")

    assert asyncio.run(ask()) == found
