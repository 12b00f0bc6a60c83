"""Predictions of a trained network that is in a cluster: nothing is trained, nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dslide import arrays
from dslide._batches import BatchPreparer
from dslide._io import chunked, run_blocking
from dslide._network import HiddenDropout, Network, activate, add_partials
from dslide._predictions import TopK
from dslide._texts import fetch_texts
from dslide.client import Client, Model
from dslide.data import Data
from dslide.errors import FailedPreconditionError, InvalidArgumentError
from dslide.ragged import Ragged
from dslide.v1 import common_pb2, shard_pb2

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
_SCORES_PER_CALL = 1 << 26  # an exact scan of so many ends within a deadline anywhere
_POINTS_PER_CALL = 256
_ROWS_PER_GATHER = 1 << 16


class Predictor:
    """The forward pass of an embedding and a head, with the role `reader`. Thread-safe."""

    def __init__(self, cluster: Client, model: Model) -> None:
        self._cluster = cluster
        self._model = model
        self._network = Network(model.spec)
        if self._network.dense:
            raise InvalidArgumentError(
                f"model {model.spec.name!r} has dense layers: predict with its trainer, or with "
                "`dslide serve`"
            )
        connection = cluster.connection
        self._batches = BatchPreparer(
            self._network,
            len(connection.shards),
            [
                connection.owners(table.num_slots)
                for table in (self._network.embedding, self._network.head)
            ],
            model.spec.training.transform,
            self._idf() if model.spec.training.transform == "tf_idf" else None,
        )

    def _idf(self) -> F32:
        name = self._model.spec.name
        texts = run_blocking(
            fetch_texts(
                self._cluster.connection, name, self._network.num_features, self._network.num_labels
            )
        )
        if texts is None or not len(texts.idf):
            raise FailedPreconditionError(
                f"model {name!r} has no weights of its features: train it with this version, or "
                "predict with its trainer"
            )
        return texts.idf

    def top_k(self, data: Data, k: int) -> TopK:
        """The k best labels of each point, exactly; at least one point."""
        head = self._network.head
        size = max(1, min(_POINTS_PER_CALL, _SCORES_PER_CALL // head.rows))
        parts = [
            self._model.top_k(head.name, hidden, min(k, head.rows))
            for hidden in self._hidden(data, size)
        ]
        return TopK(
            np.concatenate([part.logits for part in parts]),
            np.concatenate([part.ids for part in parts]),
        )

    def logits(self, data: Data) -> F64:
        """The logits of all labels, float64 [points, labels]."""
        head = self._network.head
        hidden = np.concatenate(list(self._hidden(data, _POINTS_PER_CALL))).astype(np.float64)
        out = np.empty((len(hidden), head.rows))
        for some in chunked(head.rows, _ROWS_PER_GATHER):
            rows = self._model.gather_rows(
                head.name, np.arange(some.start, some.stop), averaged=True
            )
            assert rows.biases is not None
            # Sample by sample: the bits of one do not depend on the others.
            weights = rows.values.astype(np.float64)
            for sample, vector in enumerate(hidden):
                out[sample, some] = weights @ vector + rows.biases
        return out

    def _hidden(self, data: Data, size: int) -> Iterator[F32]:
        for some in chunked(data.num_points, size):
            inputs = self._batches.inputs(data, np.arange(some.start, some.stop))
            partials = run_blocking(self._partials(inputs))
            yield activate(
                add_partials(partials, inputs[0].samples, self._network.embedding.dim),
                HiddenDropout(),
                0,
                self._network.bf16,
            )

    async def _partials(self, inputs: list[Ragged]) -> list[common_pb2.Matrix]:
        connection = self._cluster.connection
        answers = await connection.io.gather(
            [
                shard.call("Read", self._request(mine))
                for shard, mine in zip(connection.shards, inputs)
            ]
        )
        return [answer.result.embed_forward.partial for answer in answers]

    def _request(self, mine: Ragged) -> shard_pb2.ReadRequest:
        table = self._network.embedding
        assert mine.values is not None
        request = shard_pb2.ReadRequest(
            model=self._model.spec.name,
            topology_version=self._cluster.connection.map.topology_version,
        )
        request.operation.embed_forward.CopyFrom(
            shard_pb2.EmbedForward(
                table=table.name,
                batch=mine.samples,
                packed_row_ids=arrays.pack_ids(mine.offsets, mine.ids),
                values=mine.values.astype("<f4").tobytes(),
                averaged=table.optimizer.average_decay > 0,
            )
        )
        return request
