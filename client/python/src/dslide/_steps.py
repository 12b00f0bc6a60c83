"""Steps of a network that a program computes by itself, between a wide table and the shards.

A step is a forward exchange and, where the program wants gradients, a backward one. Trainers have
their own pipeline; this is for code that decides one step at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dslide import arrays, hashing
from dslide._network import add_partials, label_sums, softmax_sums
from dslide._stream import ShardStream
from dslide.client import Client, Model
from dslide.errors import DslideError, InvalidArgumentError
from dslide.ragged import Ragged, slice_ragged
from dslide.spec import resolved_head
from dslide.v1 import model_pb2, shard_pb2

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
# The shard has nothing of the step: it is as if it had never been begun.
_FORGOTTEN = ("CLOSED_CLIENT", "UNKNOWN_CLIENT", "NO_CONTEXT", "STEP_CLOSED")
_MAX_SAMPLES = 65536
_MAX_BYTES = (4 << 20) - 4096  # of a message, less what is around an operation
_CLOSED = ("CLOSED_CLIENT", "UNKNOWN_CLIENT")


class ForgottenStepError(Exception):
    """No shard has the step's context any more, and none has changed a row for this operation."""


class StepLane:
    """The steps of one client on the tables of one model. Thread-safe: exchanges take turns.

    Opens streams with the first exchange. Close it, or use it in a `with`.
    """

    def __init__(self, cluster: Client, model: Model) -> None:
        self._cluster = cluster
        self._model = model
        self._mutex = threading.RLock()
        self._streams: list[ShardStream] = []
        self._open: set[int] = set()
        self._last = 0

    def __enter__(self) -> StepLane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def shards(self) -> int:
        return len(self._cluster.connection.shards)

    def owners(self, table: model_pb2.TableSpec) -> npt.NDArray[np.uint16]:
        """The shard of each slot of a table."""
        return self._cluster.connection.owners(table.num_slots)

    def begin(self) -> int:
        """A new step, larger than all before. Shards keep its contexts until it ends."""
        with self._mutex:
            self._last += 1
            self._open.add(self._last)
            return self._last

    def end(self, step: int) -> None:
        """No operation of the step follows; the shards learn that with the next exchange."""
        with self._mutex:
            self._open.discard(step)

    def exchange(
        self, step: int, operations: Sequence[dict[str, Any]]
    ) -> list[shard_pb2.StepResponse]:
        """Sends one operation to each shard, and returns their answers, by ordinal.

        Raises ForgottenStepError when every shard has refused for want of the step, and the first
        shard's error otherwise. After an error whose fate is unknown streams are opened anew.
        """
        with self._mutex:
            for attempt in range(2):
                self._connect()
                answers, errors = self._one_exchange(step, operations)
                if not errors:
                    return answers
                if len(errors) == self.shards and all(e.reason in _CLOSED for e in errors):
                    # A cluster checkpoint evicts clients that leave a step open for too long.
                    self._disconnect()
                    if attempt == 0 and _begins(operations):
                        continue
                    raise ForgottenStepError from errors[0]
                if len(errors) == self.shards and all(e.reason in _FORGOTTEN for e in errors):
                    raise ForgottenStepError from errors[0]
                if any(error.applied is not False for error in errors):
                    self._disconnect()
                raise errors[0]
            raise AssertionError("unreachable")

    def close(self) -> None:
        """Closes the client at the shards, which drop what they keep of it."""
        with self._mutex:
            self._disconnect()

    def _one_exchange(
        self, step: int, operations: Sequence[dict[str, Any]]
    ) -> tuple[list[shard_pb2.StepResponse], list[DslideError]]:
        first_open = min(step, *self._open) if self._open else step
        for stream, operation in zip(self._streams, operations):
            stream.send(step, first_open, **operation)
        answers, errors = [], []
        for stream in self._streams:  # all of them: answers come in the order of requests
            try:
                answers.append(stream.receive())
            except DslideError as error:
                errors.append(error)
        return answers, errors

    def _connect(self) -> None:
        if self._streams:
            return
        connection = self._cluster.connection
        client_id = os.urandom(16)
        settings = dataclasses.replace(connection.settings, job=f"steps-{client_id.hex()[:8]}")
        with contextlib.ExitStack() as undo:
            opened: list[ShardStream] = []
            for shard in connection.shards:
                stream = ShardStream(
                    shard,
                    settings,
                    client_id,
                    self._model.spec.name,
                    connection.map.topology_version,
                )
                undo.callback(stream.close)
                opened.append(stream)
            self._streams = opened
            undo.pop_all()

    def _disconnect(self) -> None:
        streams, self._streams = self._streams, []
        for stream in streams:
            stream.close()


def _begins(operations: Sequence[dict[str, Any]]) -> bool:
    return not any(name.endswith("_backward") for part in operations for name in part)


@dataclasses.dataclass(frozen=True)
class HeadBatch:
    """Samples of a step of a head.

    hidden : float32 [B, dim]
    labels : of each sample, ascending, with their targets as values, >= 0
    """

    hidden: F32
    labels: Ragged

    def sums(self) -> F64:
        """The sum of each sample's targets, [B]."""
        assert self.labels.values is not None
        samples, values = self.labels.samples, self.labels.values.astype(np.float64)
        found: F64 = np.bincount(self.labels.sample_of(), values, minlength=samples).astype(
            np.float64
        )
        return found


@dataclasses.dataclass(frozen=True)
class HeadResult:
    """losses float64 [B]: sum of targets times -log p; lse float64 [B]: log of the softmax sum."""

    losses: F64
    lse: F64


class HeadSteps:
    """Cross-entropy of a head's rows: forward, and the backward that also updates the rows."""

    def __init__(self, lane: StepLane, table: model_pb2.TableSpec) -> None:
        self._lane = lane
        self._table = table
        self._owners = lane.owners(table)
        self._family = (
            hashing.hash_family(resolved_head(table).hash, table.dim)
            if table.head.max_active > 0
            else None
        )

    def forward(self, step: int, batch: HeadBatch) -> HeadResult:
        """Losses of the samples; the shards keep what the step's backward needs."""
        parts = slice_ragged(self._owners, self._lane.shards, batch.labels)
        prints = None if self._family is None else self._family.hash_queries(batch.hidden)
        hidden = arrays.matrix(batch.hidden)
        operations = []
        for mine in parts:
            assert mine.values is not None
            request = shard_pb2.HeadForward(
                table=self._table.name,
                hidden=hidden,
                # The target of a label is its weight; a sample without any has no loss.
                label_targets=(batch.sums() > 0).astype("<f4").tobytes(),
                label_weights=mine.values.astype("<f4").tobytes(),
                packed_label_ids=arrays.pack_ids(mine.offsets, mine.ids),
            )
            if prints is not None:
                request.fingerprints = prints.astype("<u4").tobytes()
            _check_size(request.ByteSize(), len(batch.hidden), self._table)
            operations.append({"head_forward": request})
        answers = [answer.head_forward for answer in self._lane.exchange(step, operations)]
        lse = softmax_sums(answers, len(batch.hidden))
        losses = np.where(batch.sums() > 0, batch.sums() * lse, 0.0) - label_sums(answers, parts)
        return HeadResult(losses, lse)

    def backward(self, step: int, log_partitions: F64, scale: float, rate: float | None) -> F32:
        """Applies the rows' gradients of scale times the sum of the losses.

        log_partitions : [B], lse less the log of the sample's targets' sum
        scale : (0, 1]
        rate : learning rate of this update; 0: rows stay; None: the table's own

        Returns the gradient of the hidden vectors, float32 [B, dim]. Raises ForgottenStepError.
        """
        request = shard_pb2.HeadBackward(
            table=self._table.name,
            scale=scale,
            log_partitions=log_partitions.astype("<f4").tobytes(),
        )
        if rate is not None:
            request.learning_rate = rate
        answers = self._lane.exchange(step, [{"head_backward": request}] * self._lane.shards)
        return add_partials(
            [answer.head_backward.hidden_gradient for answer in answers],
            len(log_partitions),
            self._table.dim,
        )


def _check_size(size: int, samples: int, table: model_pb2.TableSpec) -> None:
    """A step is one message to each shard, and one update."""
    if samples > _MAX_SAMPLES or size > _MAX_BYTES:
        most = min(_MAX_SAMPLES, samples * _MAX_BYTES // max(size, 1))
        raise InvalidArgumentError(
            f"a batch of {samples} samples is {size} bytes for table {table.name!r}, a message "
            f"holds {_MAX_BYTES}: take at most {max(most, 1)} samples at a time"
        )


class EmbeddingSteps:
    """Sums of a wide table's rows: forward, and the backward that updates the rows."""

    def __init__(self, lane: StepLane, table: model_pb2.TableSpec) -> None:
        self._lane = lane
        self._table = table
        self._owners = lane.owners(table)

    def forward(self, step: int, inputs: Ragged) -> F32:
        """The weighted sums of each sample's rows, float32 [B, dim]. Ids ascend in a sample."""
        operations = []
        for mine in slice_ragged(self._owners, self._lane.shards, inputs):
            assert mine.values is not None
            request = shard_pb2.EmbedForward(
                table=self._table.name,
                batch=inputs.samples,
                packed_row_ids=arrays.pack_ids(mine.offsets, mine.ids),
                values=mine.values.astype("<f4").tobytes(),
            )
            _check_size(request.ByteSize(), inputs.samples, self._table)
            _check_size(4 * inputs.samples * self._table.dim, inputs.samples, self._table)
            operations.append({"embed_forward": request})
        answers = self._lane.exchange(step, operations)
        return add_partials(
            [answer.embed_forward.partial for answer in answers], inputs.samples, self._table.dim
        )

    def backward(self, step: int, gradient: F32, rate: float | None) -> None:
        """Applies the rows' gradients. gradient : float32 [B, dim]. Raises ForgottenStepError."""
        request = shard_pb2.EmbedBackward(table=self._table.name, gradient=arrays.matrix(gradient))
        if rate is not None:
            request.learning_rate = rate
        self._lane.exchange(step, [{"embed_backward": request}] * self._lane.shards)
