"""The estimator is one of scikit-learn's, and what it says of wide problems is true."""

from __future__ import annotations

import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install 'dslide[sklearn]'")

from sklearn.base import clone  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

import dslide  # noqa: E402


@pytest.fixture(autouse=True)
def _programs(bin_dir: pathlib.Path) -> None:
    """Local clusters find them."""


@parametrize_with_checks([dslide.WideClassifier(dim=16, max_epochs=6, batch_size=32, learning_rate=0.1)])
def test_is_an_estimator(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
