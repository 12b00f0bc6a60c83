"""What a trained model predicts, and how often it is right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dslide._batches import BatchPreparer
from dslide._network import Network
from dslide._pipeline import StepPipeline
from dslide._predictions import TopK
from dslide.client import Model
from dslide.data import Data
from dslide.errors import InvalidArgumentError

I64 = npt.NDArray[np.int64]
_SCORES_PER_CALL = 1 << 26  # an exact scan of so many ends within a deadline anywhere


@dataclass(frozen=True)
class Precision:
    """Shares of right labels among the first 1, 3 and 5 predictions."""

    at_1: float
    at_3: float
    at_5: float


class Evaluation:
    """Predicts the labels of points, over a pipeline that is drained."""

    def __init__(self, network: Network, model: Model, batches: BatchPreparer) -> None:
        self._network = network
        self._model = model
        self._batches = batches

    def predict(
        self, pipeline: StepPipeline, data: Data, points: I64, k: int, hashed: bool
    ) -> TopK:
        """Of any number of points."""
        parts = [self._top_k(pipeline, data, some, k, hashed) for some in self._in_batches(points)]
        return TopK(
            np.concatenate([part.logits for part in parts]),
            np.concatenate([part.ids for part in parts]),
        )

    def measure(self, pipeline: StepPipeline, data: Data, points: I64) -> Precision:
        """Exactly; points without labels do not count."""
        hits, counted = np.zeros(5), 0
        for some in self._in_batches(points):
            predicted = self._top_k(pipeline, data, some, 5, False).ids
            _, labels = data.take(some)
            # A pair of sample and label is one number.
            truth = (labels.sample_of() << 32) | labels.ids.astype(np.int64)
            guess = (np.arange(len(some))[:, None] << 32) | predicted.astype(np.int64)
            hits += np.isin(guess, truth).sum(axis=0)
            counted += int((np.diff(labels.offsets) > 0).sum())
        if counted == 0:
            raise InvalidArgumentError(
                f"{data.name}: no point has a label, so there is no accuracy to measure"
            )
        found = np.cumsum(hits)
        return Precision(
            float(found[0] / counted),
            float(found[2] / (3 * counted)),
            float(found[4] / (5 * counted)),
        )

    def _in_batches(self, points: I64) -> Iterator[I64]:
        size = min(
            max(_SCORES_PER_CALL // max(self._network.num_labels, 1), 1),
            self._network.spec.training.batch_size,
            256,
        )
        for first in range(0, len(points), size):
            yield points[first : first + size]

    def _top_k(self, pipeline: StepPipeline, data: Data, points: I64, k: int, hashed: bool) -> TopK:
        hidden = pipeline.hidden(self._batches.inputs(data, points))
        return self._model.top_k(self._network.head.name, hidden, k, hashed=hashed)
