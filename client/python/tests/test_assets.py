"""Assets of models, what trainers share in them, and models that grow."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import SMALL_SPEC
from scipy.sparse import csr_matrix

import dslide
from dslide._predictor import Predictor

_FEATURES, _LABELS = 40, 20


def _points(labels: int, seed: int = 1) -> tuple[csr_matrix, list[list[int]]]:
    """Points whose label is the feature that weighs most, and one for all of them."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, labels, 600)
    matrix = csr_matrix((np.ones(600), (np.arange(600), truth)), shape=(600, _FEATURES))
    noise = csr_matrix((np.full(600, 0.1), (np.arange(600), np.full(600, _FEATURES - 1))))
    return matrix + noise, [[int(label)] for label in truth]


def _data(labels: int, **names: Any) -> dslide.Data:
    x, y = _points(labels)
    return dslide.data.from_arrays(x, y, num_features=_FEATURES, num_labels=labels, **names)


def _spec(name: str, **training: Any) -> dict[str, Any]:
    return {
        **SMALL_SPEC,
        "name": name,
        "training": {**SMALL_SPEC["training"], "max_epochs": 12, **training},
    }


def _names(count: int, what: str = "label") -> list[str]:
    return [f"{what} {number}" for number in range(count)]


@pytest.fixture
def dropped(cluster: dslide.LocalCluster) -> Iterator[str]:
    """The name of a model that is gone afterwards."""
    yield "named"
    for model in cluster.list_models():
        if model.name == "named":
            cluster.drop_model("named")


def test_a_set_is_given_once_and_replaced_by_who_knows_it(
    cluster: dslide.LocalCluster, model: dslide.Model
) -> None:
    name = model.spec.name
    assert cluster.model_assets(name) == {}
    files = {"a.bin": bytes(range(256)) * (3 << 12), "empty": b""}  # of several pieces
    first = cluster.put_model_assets(name, files)
    assert cluster.model_assets(name) == files
    assert cluster.put_model_assets(name, files) == first
    with pytest.raises(dslide.FailedPreconditionError) as refused:
        cluster.put_model_assets(name, {"a.bin": b"other"})
    assert refused.value.reason == "ASSETS_DIFFER"
    assert cluster.model_assets(name) == files
    cluster.put_model_assets(name, {"a.bin": b"other"}, replaces=first)
    assert cluster.model_assets(name) == {"a.bin": b"other"}
    for wrong in ({}, {"FILES": b""}):
        with pytest.raises(dslide.InvalidArgumentError, match="give at least one"):
            cluster.put_model_assets(name, wrong)
    with pytest.raises(dslide.NotFoundError):
        cluster.model_assets("nobody")


def test_what_was_learnt_here_is_predicted_anywhere(
    cluster: dslide.LocalCluster, run_dslide: Any, tmp_path: pathlib.Path, dropped: str
) -> None:
    data = _data(_LABELS, label_names=_names(_LABELS), feature_names=_names(_FEATURES, "word"))
    with dslide.Trainer(
        cluster, _spec(dropped, transform="tf_idf"), data, progress=False
    ) as trainer:
        trainer.train()
        logits, ids = trainer.predict(data, k=3)
        ours = trainer.evaluate(data).at_1
    best = Predictor(cluster, cluster.model(dropped)).top_k(data, 3)
    np.testing.assert_array_equal(best.ids, ids)
    np.testing.assert_array_equal(best.logits, logits)
    assert ours > 0.9
    assert cluster.label_names(dropped) == _names(_LABELS)

    test = tmp_path / "test.txt"
    lines = [f"1 {_FEATURES} {_LABELS}", f"3 3:1 {_FEATURES - 1}:0.1"]
    test.write_text("\n".join(lines) + "\n")
    cli = ("--cluster", cluster.address, "--name", dropped, "--data", test)
    assert run_dslide("eval", *cli, "-o", "json")["p_at_1"] == 1
    assert "label 3" in run_dslide("predict", *cli, "-k", 1)


def test_names_of_other_data_are_refused(cluster: dslide.LocalCluster, dropped: str) -> None:
    spec = _spec(dropped)
    dslide.Trainer(
        cluster, spec, _data(_LABELS, label_names=_names(_LABELS)), progress=False
    ).close()
    wrong = ["zero", *_names(_LABELS)[1:]]
    with pytest.raises(dslide.FailedPreconditionError, match="label 0 is 'label 0' there, 'zero'"):
        dslide.Trainer(cluster, spec, _data(_LABELS, label_names=wrong), job="b", progress=False)
    # Nothing grows before that is known.
    with pytest.raises(dslide.FailedPreconditionError, match="'zero'"):
        more = _data(_LABELS + 5, label_names=[*wrong, *_names(_LABELS + 5)[_LABELS:]])
        dslide.Trainer(cluster, spec, more, job="c", progress=False, grow=True)
    assert cluster.model(dropped).spec.tables[1].rows == _LABELS
    with pytest.raises(dslide.InvalidArgumentError, match="label_names has 3 names"):
        _data(_LABELS, label_names=_names(3))


def test_a_model_grows_by_the_labels_of_new_data(
    cluster: dslide.LocalCluster, dropped: str
) -> None:
    first, more = _LABELS // 2, _LABELS
    data = _data(first, label_names=_names(first))
    with dslide.Trainer(cluster, _spec(dropped), data, job="one", progress=False) as trainer:
        trainer.train()
    grown = _data(more, label_names=_names(more))
    with pytest.raises(dslide.FailedPreconditionError):
        dslide.Trainer(cluster, _spec(dropped), grown, job="two", progress=False)
    with dslide.Trainer(
        cluster, _spec(dropped), grown, job="two", progress=False, grow=True
    ) as trainer:
        trainer.train()
        assert trainer.evaluate(grown).at_1 > 0.9
    spec = cluster.model(dropped).spec
    assert (spec.tables[1].rows, spec.tables[1].base_rows) == (more, first)
    assert cluster.label_names(dropped) == _names(more)
    # Whoever knows only the first labels goes on, too.
    dslide.Trainer(cluster, _spec(dropped), data, job="three", progress=False).close()

    assert cluster.grow_model(dropped, "labels", more + 3, dry_run=True).tables[1].rows == more + 3
    assert cluster.model(dropped).spec.tables[1].rows == more
    assert cluster.grow_model(dropped, "labels", more + 3).tables[1].rows == more + 3
    assert cluster.grow_model(dropped, labels=more + 3).tables[1].rows == more + 3
    with pytest.raises(dslide.FailedPreconditionError, match="fewer"):
        cluster.grow_model(dropped, "labels", more)
    with pytest.raises(dslide.InvalidArgumentError, match="name a table"):
        cluster.grow_model(dropped)

    assert cluster.retire_labels(dropped, [3, 0, 2], dry_run=True).retired_labels == "0,2-3"
    assert not cluster.model(dropped).spec.retired_labels
    cluster.retire_labels(dropped, range(more))
    assert cluster.retire_labels(dropped, [1], restore=True).retired_labels == f"0,2-{more - 1}"
    with pytest.raises(dslide.InvalidArgumentError, match="all labels"):
        cluster.retire_labels(dropped, range(more + 3))
