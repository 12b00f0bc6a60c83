"""Rows over two shards: what is read is what was written, in every order."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from conftest import take_checkpoint

import dslide
from dslide import aio, arrays, bulk
from dslide.first_rows import first_rows
from dslide.v1 import common_pb2, shard_pb2


def test_first_values_of_rows_are_those_of_the_formula(
    cluster: dslide.LocalCluster, model: dslide.Model
) -> None:
    spec = model.spec
    ids = [0, 4999, 17, 17, 3]
    rows = model.gather_rows("labels", ids)
    np.testing.assert_array_equal(rows.values, first_rows(spec.tables[2], spec.seed, ids))
    np.testing.assert_array_equal(rows.biases, np.zeros(5, np.float32))
    assert rows.values.dtype == np.float32


@pytest.mark.parametrize("table", ["input", "hidden", "labels"])
def test_gather_answers_in_the_order_asked_for(
    cluster: dslide.LocalCluster, model: dslide.Model, table: str, rng: np.random.Generator
) -> None:
    rows = next(t.rows for t in model.spec.tables if t.name == table)
    everything = model.gather(table, np.arange(rows))
    ids = rng.integers(0, rows, 1000)
    np.testing.assert_array_equal(model.gather(table, ids), everything[ids])
    assert model.gather(table, []).shape == (0, everything.shape[1])
    for wanted in (ids, np.unique(ids)):
        out = np.empty((len(wanted), everything.shape[1]), np.float32)
        assert model.gather(table, wanted, out=out) is out
        np.testing.assert_array_equal(out, everything[wanted])
    with pytest.raises(dslide.InvalidArgumentError, match="out is float64"):
        model.gather(table, ids, out=np.empty((len(ids), everything.shape[1])))


def test_scatter_adds_up_equal_ids(
    cluster: dslide.LocalCluster, model: dslide.Model, rng: np.random.Generator
) -> None:
    ids = rng.integers(0, 300, 1000)
    values = rng.integers(-8, 8, (1000, 24)).astype(np.float32)
    biases = rng.integers(-8, 8, 1000).astype(np.float32)
    before = model.gather_rows("labels", np.arange(300))
    model.scatter("labels", ids, values, biases=biases, mode="add")
    after = model.gather_rows("labels", np.arange(300))
    expected, expected_bias = np.zeros((300, 24), np.float32), np.zeros(300, np.float32)
    np.add.at(expected, ids, values)
    np.add.at(expected_bias, ids, biases)
    np.testing.assert_allclose(after.values - before.values, expected, atol=1e-5)
    np.testing.assert_array_equal(after.biases, expected_bias)


def test_scatter_of_gradients_runs_the_optimizer(
    cluster: dslide.LocalCluster, model: dslide.Model
) -> None:
    before = model.gather("labels", [7, 4000])
    gradient = np.full((2, 24), 0.25, np.float32)
    model.scatter("labels", [4000, 7], gradient)  # SGD at 0.5
    np.testing.assert_allclose(model.gather("labels", [7, 4000]), before - 0.125, rtol=1e-6)


def test_averages_are_read_where_the_table_keeps_them(cluster: dslide.LocalCluster) -> None:
    spec = {
        "name": "averaged",
        "tables": [
            {
                "name": "labels",
                "role": "head",
                "rows": 50,
                "dim": 4,
                "optimizer": {"kind": "sgd", "learning_rate": 0.5, "average_decay": 0.75},
            }
        ],
    }
    model = cluster.create_model(spec)
    ids = np.arange(50)
    mean, weights = np.zeros((50, 4)), 0.0
    for step in range(1, 6):
        # Some rows rest: the average counts them as they are.
        moved = ids[ids % step <= 1]
        model.scatter("labels", moved, np.ones((len(moved), 4)), biases=np.ones(len(moved)))
        mean = 0.75 * mean + model.gather("labels", ids)
        weights = 0.75 * weights + 1.0
    rows = model.gather_rows("labels", ids, averaged=True)
    np.testing.assert_allclose(rows.values, mean / weights, atol=1e-5)
    assert (rows.biases != model.gather_rows("labels", ids).biases).any()
    hidden = np.ones((1, 4), np.float32)
    best = model.top_k("labels", hidden, k=50)
    logits = rows.values.sum(axis=1) + rows.biases
    np.testing.assert_allclose(best.logits[0], np.sort(logits)[::-1], atol=1e-5)


def test_assigned_rows_are_read_back(
    cluster: dslide.LocalCluster, model: dslide.Model, rng: np.random.Generator
) -> None:
    # Several messages a shard: 5,000 rows of 24 floats are 480 KB, so all rows of both tables.
    values = rng.standard_normal((5000, 24)).astype(np.float32)
    order = rng.permutation(5000)
    model.scatter("labels", order, values[order], mode="assign")
    np.testing.assert_array_equal(model.gather("labels", np.arange(5000)), values)
    with pytest.raises(dslide.InvalidArgumentError, match="row 5 is assigned twice"):
        model.scatter("labels", [5, 2, 5], values[:3], mode="assign")


def test_top_k_is_the_best_of_all_rows(
    cluster: dslide.LocalCluster, model: dslide.Model, rng: np.random.Generator
) -> None:
    hidden = rng.standard_normal((7, 24)).astype(np.float32)
    logits = hidden @ model.gather("labels", np.arange(5000)).T
    best = model.top_k("labels", hidden, k=4)
    np.testing.assert_array_equal(best.ids, np.argsort(-logits, axis=1, kind="stable")[:, :4])
    np.testing.assert_allclose(
        best.logits, np.take_along_axis(logits, best.ids.astype(int), 1), rtol=1e-4
    )


def test_top_k_of_given_rows_adds_their_offsets(
    cluster: dslide.LocalCluster, model: dslide.Model, rng: np.random.Generator
) -> None:
    hidden = rng.standard_normal((7, 24)).astype(np.float32)
    rows = [rng.permutation(5000)[:n] for n in (40, 1, 0, 300, 5, 5, 5)]
    offsets = [rng.standard_normal(len(mine)).astype(np.float32) for mine in rows]
    weights = model.gather("labels", np.arange(5000))
    for given in (offsets, None):
        best = model.top_k("labels", hidden, k=4, rows=rows, offsets=given)
        assert best.ids.shape == (7, 4)
        for i, mine in enumerate(rows):
            logits = weights[mine] @ hidden[i]
            if given is not None:
                logits = logits + given[i]
            order = np.lexsort((mine, -logits))[:4]
            np.testing.assert_array_equal(best.ids[i, : len(order)], mine[order])
            np.testing.assert_allclose(best.logits[i, : len(order)], logits[order], atol=1e-5)
            assert np.isneginf(best.logits[i, len(order) :]).all()


def test_selected_rows_hold_the_best_ones(
    cluster: dslide.LocalCluster, model: dslide.Model, rng: np.random.Generator
) -> None:
    hidden = rng.standard_normal((20, 24)).astype(np.float32)
    selected = model.select("labels", hidden)
    best = model.top_k("labels", hidden, k=1).ids[:, 0]
    found = 0
    for i in range(20):
        mine = selected.ids[selected.offsets[i] : selected.offsets[i + 1]]
        assert (np.diff(mine.astype(np.int64)) > 0).all()
        found += int(best[i] in mine)
    # Where 300 of 5,000 rows are drawn blindly, 1.2 of 20 would be found.
    assert found >= 10


def test_a_budget_of_all_rows_finds_what_an_exact_search_finds(
    cluster: dslide.LocalCluster, model: dslide.Model, rng: np.random.Generator
) -> None:
    hidden = rng.standard_normal((20, 24)).astype(np.float32)
    exact = model.top_k("labels", hidden, k=10)

    def recall(budget: int) -> float:
        found = model.top_k("labels", hidden, k=10, hashed=True, budget=budget).ids
        return float(np.mean([np.isin(a, b).mean() for a, b in zip(exact.ids, found, strict=True)]))

    assert recall(5000) == 1.0
    assert 0.0 < recall(500) <= recall(2500)


def test_a_table_that_is_not_hashed_selects_nothing(
    cluster: dslide.LocalCluster, model: dslide.Model
) -> None:
    with pytest.raises(dslide.InvalidArgumentError, match="not hashed"):
        model.select("hidden", np.zeros((1, 16), np.float32))


def test_asyncio_does_the_same(cluster: dslide.LocalCluster, model: dslide.Model) -> None:
    async def use() -> None:
        async with aio.connect(cluster.address) as client:
            mine = await client.model(model.spec.name)
            before = await mine.gather("labels", np.arange(50))
            np.testing.assert_array_equal(before, model.gather("labels", np.arange(50)))
            one = np.ones((1, 24), np.float32)
            await asyncio.gather(
                *(mine.scatter("labels", [i % 3], one, mode="add") for i in range(30))
            )
            after = await mine.gather("labels", [0, 1, 2, 3])
            np.testing.assert_allclose(
                after - before[:4], np.repeat([10, 10, 10, 0], 24).reshape(4, 24), atol=1e-4
            )
            with pytest.raises(dslide.NotFoundError, match="no model 'nothing'"):
                await client.model("nothing")

    asyncio.run(use())


def test_models_are_described(cluster: dslide.LocalCluster, model: dslide.Model) -> None:
    assert model.spec.name in [spec.name for spec in cluster.list_models()]
    parts = model.describe(digests=True)
    assert len(parts) == cluster.num_shards
    for position, table in enumerate(model.spec.tables):
        assert sum(part.tables[position].shard_rows for part in parts) == table.rows
    assert cluster.create_model(model.spec).spec == model.spec
    other = dslide.load_spec(model.spec)
    other.seed += 1
    with pytest.raises(dslide.FailedPreconditionError) as caught:
        cluster.create_model(other)
    assert caught.value.reason == "MODEL_DIFFERS"


def test_checkpoints_bring_rows_back(cluster: dslide.LocalCluster, model: dslide.Model) -> None:
    before = model.gather("labels", [1, 2])
    assert model.save_checkpoint("mine").rows > 5000
    model.scatter("labels", [1, 2], np.ones((2, 24)), mode="assign")
    model.restore_checkpoint("mine")
    np.testing.assert_array_equal(model.gather("labels", [1, 2]), before)
    taken = take_checkpoint(cluster)
    known = [one.checkpoint_id for one in cluster.list_cluster_checkpoints()]
    assert taken.checkpoint_id in known


def test_metrics_and_status_of_the_cluster(
    cluster: dslide.LocalCluster, model: dslide.Model
) -> None:
    page = cluster.metrics(1)
    assert any(name.startswith("dslide_shard_") for name in page)
    assert model.spec.name in cluster.status().models
    assert len(cluster.cluster_map().shards) == 2
    with pytest.raises(dslide.NotFoundError, match="no job 'nothing'"):
        cluster.job_status("nothing")


def test_messages_of_rows_are_ordinary_protobuf(rng: np.random.Generator) -> None:
    values = rng.standard_normal((300, 7)).astype(np.float32)
    ids = np.arange(0, 600, 2)
    head = shard_pb2.ScatterRequest(table="t", total_rows=300)
    for biases in (None, values[:, 0].copy()):
        request = shard_pb2.ScatterRequest.FromString(
            bulk.scatter_message(head, ids, values, biases)
        )
        assert (request.table, request.total_rows) == ("t", 300)
        block = bulk.read_rows(shard_pb2.GatherResponse(rows=request.rows).SerializeToString())
        np.testing.assert_array_equal(block.ids, ids)
        np.testing.assert_array_equal(block.values, values)
        np.testing.assert_array_equal(block.biases, [] if biases is None else biases)
    # As a table stored in bf16 answers.
    half = common_pb2.RowBlock(
        row_ids=ids.astype("<u4").tobytes(),
        values=arrays.matrix(values, bf16=True),
    )
    block = bulk.read_rows(shard_pb2.GatherResponse(rows=half).SerializeToString())
    np.testing.assert_allclose(block.values, values, rtol=2**-8)
