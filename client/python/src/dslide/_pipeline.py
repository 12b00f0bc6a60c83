"""Training steps on their way through the shards, several at a time, in an order that is fixed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dslide import _network, arrays
from dslide._network import DenseLayer, HiddenDropout, Network
from dslide._rates import learning_rate
from dslide._stream import ShardStream
from dslide.ragged import Ragged
from dslide.v1 import common_pb2, shard_pb2

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass
class Batch:
    """Samples of one step, cut by shard. `lease`: of the chunk that they belong to.

    `job_step`: the step's number in the job, from 1.
    """

    lease: int
    epoch: int
    job_step: int
    points: I64
    inputs: list[Ragged]  # by shard
    labels: list[Ragged]  # by shard
    targets: F32


@dataclass
class Step:
    """A step under way: `stage` is the exchange that is waited for."""

    step: int
    batch: Batch
    exchange: int
    stage: str = "embed_forward"
    expected: list[int] = field(default_factory=list)  # the shard of each outstanding answer
    dense: list[DenseLayer] = field(default_factory=list)
    activations: list[F32] = field(default_factory=list)
    loss_sum: float = 0.0
    active_pairs: int = 0


class StepPipeline:
    """Always waits for the oldest outstanding exchange, does the arithmetic between it and the
    next, sends that, and puts the step at the end of the queue: the order of commands at a shard is
    a function of the batches and of `in_flight_steps` alone, never of timing.
    """

    def __init__(
        self,
        network: Network,
        streams: list[ShardStream],
        seed: int,
        on_finished: Callable[[Step], None],
    ) -> None:
        self._network = network
        self._streams = streams
        self._seed = seed
        self._on_finished = on_finished
        self._under_way: deque[Step] = deque()  # by the age of their exchange
        self._closing: deque[Step] = deque()  # only the last answer is missing
        self._next_exchange = 0
        self.next_step = 1

    def submit(self, batch: Batch) -> None:
        while len(self._under_way) >= self._network.spec.training.in_flight_steps:
            self._advance()
        step = Step(self.next_step, batch, self._exchange())
        self.next_step += 1
        self._send_inputs(step, batch.inputs)
        self._under_way.append(step)

    def drain(self) -> None:
        while self._under_way:
            self._advance()
        self._collect(self._next_exchange)

    def hidden(self, inputs: list[Ragged]) -> F32:
        """The hidden vectors of samples, without dropout; only when drained. float32 [B, dim]."""
        step = Step(
            self.next_step,
            Batch(0, 0, 1, np.empty(0, np.int64), inputs, [], np.empty(0, np.float32)),
            self._exchange(),
        )
        self.next_step += 1
        self._send_inputs(step, inputs, averaged=True)
        self._forward_hidden(step, self._answers(step), HiddenDropout(), inputs[0].samples)
        return step.activations[-1]

    # --- Exchanges --------------------------------------------------------------------------------

    def _exchange(self) -> int:
        self._next_exchange += 1
        return self._next_exchange - 1

    def _send(self, step: Step, shard: int, **operation: Any) -> None:
        first_open = min([step.step, *(other.step for other in self._under_way)])
        self._streams[shard].send(step.step, first_open, **operation)
        step.expected.append(shard)

    def _matrix(self, x: F32) -> common_pb2.Matrix:
        """In the form that all shards read, as one message goes to each of them."""
        sparse = all(stream.sparse for stream in self._streams)
        return arrays.matrix(x, bf16=self._network.bf16, sparse=sparse)

    def _answers(self, step: Step) -> list[shard_pb2.StepResponse]:
        answers = [self._streams[shard].receive() for shard in step.expected]
        step.expected.clear()
        return answers

    def _send_inputs(self, step: Step, inputs: list[Ragged], *, averaged: bool = False) -> None:
        """`averaged`: of averaged rows, where a table keeps averages."""
        table = self._network.embedding
        for shard, mine in enumerate(inputs):
            request = shard_pb2.EmbedForward(
                table=table.name,
                batch=mine.samples,
                averaged=averaged and table.optimizer.average_decay > 0,
            )
            assert mine.values is not None
            if self._streams[shard].packed:
                request.packed_row_ids = arrays.pack_ids(mine.offsets, mine.ids)
            else:
                request.sample_offsets = mine.offsets.astype("<u4").tobytes()
                request.row_ids = mine.ids.astype("<u4").tobytes()
            if not (mine.values == 1).all():
                request.values = mine.values.astype("<f4").tobytes()
            self._send(step, shard, embed_forward=request)
        for layer in self._network.dense:
            gather = shard_pb2.DenseGather(
                table=layer.name, averaged=averaged and layer.optimizer.average_decay > 0
            )
            for shard in range(len(self._streams)):
                self._send(step, shard, dense_gather=gather)

    def _advance(self) -> None:
        step = self._under_way.popleft()
        self._collect(step.exchange)
        answers = self._answers(step)
        {
            "embed_forward": self._after_embed_forward,
            "head_forward": self._after_head_forward,
            "head_backward": self._after_head_backward,
        }[step.stage](step, answers)
        (self._closing if step.stage == "embed_backward" else self._under_way).append(step)

    def _collect(self, up_to: int) -> None:
        # Answers come in the order of sending: these stand before those of the exchange `up_to`.
        while self._closing and self._closing[0].exchange < up_to:
            step = self._closing[0]
            self._answers(step)
            self._closing.popleft()
            self._on_finished(step)

    def _forward_hidden(
        self, step: Step, answers: list[shard_pb2.StepResponse], dropout: HiddenDropout, batch: int
    ) -> None:
        shards = len(self._streams)
        layers = self._network.dense
        x = _network.add_partials(
            [a.embed_forward.partial for a in answers[:shards]], batch, self._network.embedding.dim
        )
        step.activations.append(_network.activate(x, dropout, 0, self._network.bf16 and not layers))
        for i, table in enumerate(layers):
            mine = answers[shards * (i + 1) : shards * (i + 2)]
            layer = _network.join_dense(table, [a.dense_gather.rows for a in mine])
            x = step.activations[-1] @ layer.weights.T + layer.biases
            step.activations.append(
                _network.activate(x, dropout, i + 1, self._network.bf16 and i + 1 == len(layers))
            )
            step.dense.append(layer)

    def _after_embed_forward(self, step: Step, answers: list[shard_pb2.StepResponse]) -> None:
        spec, batch = self._network.spec, step.batch
        dropout = HiddenDropout(spec.training.hidden_dropout, self._seed, batch.epoch, batch.points)
        self._forward_hidden(step, answers, dropout, len(batch.points))
        hidden = step.activations[-1]
        request = shard_pb2.HeadForward(
            table=self._network.head.name,
            hidden=self._matrix(hidden),
            label_targets=batch.targets.astype("<f4").tobytes(),
        )
        prints = None
        if self._network.family is not None:
            prints = self._network.family.hash_queries(hidden)
        short = prints is not None and bool((prints < 1 << 16).all())
        step.stage, step.exchange = "head_forward", self._exchange()
        for shard, mine in enumerate(batch.labels):
            packed = self._streams[shard].packed
            part = shard_pb2.HeadForward()
            part.CopyFrom(request)
            if prints is not None and packed and short:
                part.short_fingerprints = prints.astype("<u2").tobytes()
            elif prints is not None:
                part.fingerprints = prints.astype("<u4").tobytes()
            if packed:
                part.packed_label_ids = arrays.pack_ids(mine.offsets, mine.ids)
            else:
                part.label_offsets = mine.offsets.astype("<u4").tobytes()
                part.label_ids = mine.ids.astype("<u4").tobytes()
            self._send(step, shard, head_forward=part)

    def _after_head_forward(self, step: Step, answers: list[shard_pb2.StepResponse]) -> None:
        parts = [answer.head_forward for answer in answers]
        loss = _network.combine_loss(
            self._network.head.head.loss, parts, step.batch.labels, step.batch.targets
        )
        step.loss_sum = loss.loss_sum
        step.active_pairs = sum(part.active_pairs for part in parts)
        request = shard_pb2.HeadBackward(
            table=self._network.head.name,
            scale=float(np.float32(1) / np.float32(len(step.batch.points))),
            log_partitions=loss.log_partitions.astype("<f4").tobytes(),
            learning_rate=learning_rate(self._network.head.optimizer, step.batch.job_step),
            rectified=True,
        )
        step.stage, step.exchange = "head_backward", self._exchange()
        for shard in range(len(self._streams)):
            self._send(step, shard, head_backward=request)

    def _after_head_backward(self, step: Step, answers: list[shard_pb2.StepResponse]) -> None:
        network, p = self._network, self._network.spec.training.hidden_dropout
        gradient = _network.add_partials(
            [a.head_backward.hidden_gradient for a in answers],
            len(step.batch.points),
            network.head.dim,
        )
        gradient = _network.mask_gradient(step.activations[-1], p, gradient)
        step.stage, step.exchange = "embed_backward", self._exchange()
        for i in reversed(range(len(step.dense))):
            layer, below = step.dense[i], step.activations[i]
            weights, biases = gradient.T @ below, gradient.sum(axis=0)
            gradient = _network.mask_gradient(below, p, gradient @ layer.weights)
            for shard, rows in enumerate(layer.rows):
                if len(rows):
                    self._send(
                        step,
                        shard,
                        dense_scatter=shard_pb2.DenseScatter(
                            table=network.dense[i].name,
                            learning_rate=learning_rate(
                                network.dense[i].optimizer, step.batch.job_step
                            ),
                            gradients=common_pb2.RowBlock(
                                row_ids=rows.astype("<u4").tobytes(),
                                values=arrays.matrix(weights[rows]),
                                biases=biases[rows].astype("<f4").tobytes(),
                            ),
                        ),
                    )
        request = shard_pb2.EmbedBackward(
            table=network.embedding.name,
            gradient=self._matrix(gradient),
            learning_rate=learning_rate(network.embedding.optimizer, step.batch.job_step),
        )
        for shard in range(len(self._streams)):
            self._send(step, shard, embed_backward=request)
        # What is kept until the last answer is only the result.
        step.activations.clear()
        step.dense.clear()
