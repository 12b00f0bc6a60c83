"""Batches of training points: transformed, with input dropout, cut by shard."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dslide import _network
from dslide._network import Network
from dslide._pipeline import Batch
from dslide.data import Data, transform
from dslide.errors import InvalidArgumentError
from dslide.ragged import Ragged, slice_ragged
from dslide.v1 import coordinator_pb2

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class BatchPreparer:
    """Makes batches of points of any data that has the model's features.

    owners : the shard of each slot of the embedding, and of the head
    input_transform : "raw", "l2" or "tf_idf"; the last one needs `idf`
    """

    def __init__(
        self,
        network: Network,
        shards: int,
        owners: Sequence[npt.NDArray[np.uint16]],
        input_transform: str,
        idf: F32 | None,
    ) -> None:
        self._network = network
        self._shards = shards
        self._embedding_owners, self._head_owners = owners
        self._transform = input_transform
        self._idf = idf

    def inputs(self, data: Data, points: I64) -> list[Ragged]:
        """Each shard's features of the points, without dropout."""
        if data.num_features > self._network.num_features:
            raise InvalidArgumentError(
                f"{data.name} has {data.num_features} features, the model "
                f"has {self._network.num_features}"
            )
        features, _ = data.take(points)
        return self._cut(transform(features, self._transform, self._idf))

    def batch(
        self, data: Data, lease: coordinator_pb2.ChunkLease, job_step: int, points: I64
    ) -> Batch:
        """A step's samples: those of the points that have labels, which teach something."""
        points = points[np.diff(data.labels.offsets)[points] > 0]
        features, labels = data.take(points)
        features = transform(features, self._transform, self._idf)
        spec = self._network.spec
        p = spec.training.input_dropout
        if p > 0:
            features = _network.input_dropout(
                features, p, spec.training.order_seed or spec.seed, lease.epoch, points
            )
        counts = np.diff(labels.offsets).astype(np.float32)
        softmax = self._network.head.head.loss == "softmax"
        targets = np.float32(1) / counts if softmax else np.ones(len(points), np.float32)
        return Batch(
            lease.lease_id,
            lease.epoch,
            job_step,
            points,
            self._cut(features),
            slice_ragged(self._head_owners, self._shards, labels),
            targets,
        )

    def _cut(self, features: Ragged) -> list[Ragged]:
        if self._network.embedding.bias_row:
            features = _network.with_bias_row(features, self._network.bias_row)
        return slice_ragged(self._embedding_owners, self._shards, features)
