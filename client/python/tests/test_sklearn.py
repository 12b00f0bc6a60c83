"""The estimator is one of scikit-learn's, and what it says of wide problems is true."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip(
    "sklearn", reason="scikit-learn is not installed: pip install 'dslide[sklearn]'"
)

from scipy.sparse import csr_matrix  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

import dslide  # noqa: E402

POINTS, FEATURES, LABELS = 600, 80, 40


@pytest.fixture(autouse=True)
def _programs(bin_dir: pathlib.Path) -> None:
    """Local clusters find them."""


# All checks apply; none is expected to fail.
@parametrize_with_checks(
    [dslide.WideClassifier(dim=16, max_epochs=6, batch_size=32, learning_rate=0.1)]
)
def test_is_an_estimator(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def _words(rng: np.random.Generator) -> tuple[csr_matrix, list[list[int]]]:
    """Points of two labels each, and the two features that tell of each label."""
    labels = [sorted(rng.choice(LABELS, 2, replace=False).tolist()) for _ in range(POINTS)]
    features = [[2 * label + side for label in some for side in (0, 1)] for some in labels]
    x = csr_matrix(
        (np.ones(4 * POINTS), np.ravel(features), np.arange(0, 4 * POINTS + 1, 4)),
        shape=(POINTS, FEATURES),
    )
    return x, labels


def _indicator(labels: list[list[int]]) -> np.ndarray[Any, Any]:
    matrix = np.zeros((len(labels), LABELS), np.int64)
    for row, some in enumerate(labels):
        matrix[row, some] = 1
    return matrix


def _classifier(**settings: Any) -> Any:
    return dslide.WideClassifier(
        **{"dim": 32, "max_epochs": 8, "learning_rate": 0.03, "random_state": 3, **settings}
    )


def test_label_lists_and_matrices_are_the_same(rng: np.random.Generator) -> None:
    x, labels = _words(rng)
    lists = _classifier(top_k=2).fit(x, labels)
    best = lists.predict(x)
    assert best.shape == (POINTS, 2)
    assert np.mean(np.sort(best, axis=1) == labels) > 0.95
    assert lists.score(x, labels) > 0.95
    assert lists.score(x, _indicator(labels)) == lists.score(x, labels)
    top, scores = lists.predict_top_k(x, 3)
    assert np.array_equal(top[:, :2], best)
    decisions = lists.decision_function(x)
    assert decisions.shape == (POINTS, LABELS)
    np.testing.assert_allclose(np.take_along_axis(decisions, top, 1), scores, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lists.predict_proba(x).sum(axis=1), 1)
    for form in (_indicator(labels), csr_matrix(_indicator(labels))):
        again = clone(lists).fit(x, form)
        assert np.array_equal(again.decision_function(x), decisions)  # equal seeds, equal bits
        assert np.array_equal(again.classes_, np.arange(LABELS))


def test_parts_teach_what_the_whole_teaches(rng: np.random.Generator) -> None:
    x, labels = _words(rng)
    parts = _classifier()
    half = POINTS // 2
    for _ in range(6):
        parts.partial_fit(x[:half], labels[:half], classes=np.arange(LABELS))
        parts.partial_fit(x[half:], labels[half:])
    assert parts.score(x, labels) > 0.9
    with pytest.raises(ValueError, match="must have any number of labels"):
        parts.partial_fit(x, np.arange(POINTS))
    with pytest.raises(ValueError, match="must be those of the first call"):
        parts.partial_fit(x, labels, classes=np.arange(LABELS + 1))


def test_a_hashed_head_learns_named_classes(rng: np.random.Generator) -> None:
    x, labels = _words(rng)
    names = np.array([f"class {some[0]:02}" for some in labels])
    hashed = _classifier(max_active=20, tail_rows=10).fit(x, names)
    assert hashed.score(x, names) > 0.6  # half of the points could be of either label's class
    best = hashed.predict(x, top_k=3)
    assert best.shape == (POINTS, 3)
    assert np.array_equal(best[:, 0], hashed.predict(x))
    assert set(best.ravel()) <= set(names)


READ = """
import pickle, sys
import numpy as np
with open(sys.argv[1], "rb") as file:
    estimator, x, expected = pickle.load(file)
assert np.array_equal(estimator.predict(x), expected)
"""


def test_a_pickle_refers_to_the_model_directory(
    rng: np.random.Generator, tmp_path: pathlib.Path
) -> None:
    """Fitted in one process, used in another, and of a size that no row fits into."""
    x, labels = _words(rng)
    with open(tmp_path / "data", "wb") as file:
        pickle.dump((x, labels), file)
    fit = """
import pickle, sys
import dslide
with open(sys.argv[1] + "/data", "rb") as file:
    x, labels = pickle.load(file)
estimator = dslide.WideClassifier(dim=32, max_epochs=1, model_dir=sys.argv[1] + "/model")
estimator.fit(x, labels)
with open(sys.argv[1] + "/fitted", "wb") as file:
    pickle.dump((estimator, x, estimator.predict(x)), file)
assert len(pickle.dumps(estimator)) < 5000
"""
    for script, argument in ((fit, tmp_path), (READ, tmp_path / "fitted")):
        done = subprocess.run(
            [sys.executable, "-c", script, argument], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr


def test_a_running_cluster_keeps_the_rows(
    cluster: dslide.LocalCluster, rng: np.random.Generator
) -> None:
    x, labels = _words(rng)
    fitted = _classifier(cluster=cluster.address, max_epochs=1).fit(x, labels)
    first = fitted.model_name_
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.predict(x), fitted.predict(x))
    fitted.fit(x, labels)
    there = {spec.name for spec in cluster.list_models()}
    assert {first, fitted.model_name_} <= there  # the copy refers to the first
    again = fitted.model_name_
    fitted.fit(x, labels)
    assert again not in {spec.name for spec in cluster.list_models()}
    cluster.drop_model(first)
    with pytest.raises(dslide.NotFoundError, match="the rows of this estimator are gone"):
        pickle.loads(pickle.dumps(copy)).predict(x)
