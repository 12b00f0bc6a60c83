"""Clients of which each makes one mistake: parts of the package, patched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dslide import (
    _connection,
    _network,
    _pipeline,
    _rows,
    _scatter,
    _stream,
    _transport,
    arrays,
    first_rows,
    hashing,
    order,
    trainer,
)
from dslide.v1 import shard_pb2

Patch = pytest.MonkeyPatch


def modulo_owners(patch: Patch) -> None:
    def places(self: Any, table: Any, ids: Any) -> list[Any]:
        return [np.flatnonzero(ids % len(self.shards) == s) for s in range(len(self.shards))]

    patch.setattr(_connection.Connection, "places", places)


def unsorted(patch: Patch) -> None:
    patch.setattr(_rows, "_ascending", lambda ids: (ids, None))


def repeats_overwrite(patch: Patch) -> None:
    def last(inverse: Any, values: Any) -> Any:
        sums = np.zeros((inverse.max() + 1, *values.shape[1:]), np.float32)
        sums[inverse] = values
        return sums

    patch.setattr(_rows, "_added_up", last)


def no_deadline(patch: Patch) -> None:
    once = _transport.Peer.once

    async def without(self: Any, method: str, request: Any, timeout: Any) -> Any:
        return await once(self, method, request, None)  # type: ignore[arg-type]

    patch.setattr(_transport.Peer, "once", without)


def spaced_request_ids(patch: Patch) -> None:
    patch.setattr(_transport.Settings, "request", lambda self: "two words")


def no_good_bye(patch: Patch) -> None:
    async def nothing(self: Any) -> None:
        pass

    patch.setattr(_scatter.ScatterQueue, "close", nothing)


def gaps(patch: Patch) -> None:
    head = _scatter.ScatterQueue._messages

    def skipping(self: Any, *args: Any) -> Any:
        self._sequence += 1
        return head(self, *args)

    patch.setattr(_scatter.ScatterQueue, "_messages", skipping)


def reused_numbers(patch: Patch) -> None:
    apply = _scatter.ScatterQueue.apply

    async def again(self: Any, *args: Any) -> None:
        self._sequence, self._settled = 1, self._generation > 0
        await apply(self, *args)

    patch.setattr(_scatter.ScatterQueue, "apply", again)


def new_number_on_retry(patch: Patch) -> None:
    async def renumber(self: Any) -> None:
        self._sequence += 1

    patch.setattr(_scatter.ScatterQueue, "_greet_again", renumber)


def old_generation(patch: Patch) -> None:
    hello = _stream.ShardStream._hello

    def once(self: Any) -> None:
        before = self._generation
        hello(self)
        self._generation = before or self._generation
        for sent in self._unanswered:
            self._change_envelope(sent, generation=self._generation)

    patch.setattr(_stream.ShardStream, "_hello", once)


def one_greeting(patch: Patch) -> None:
    hello = _stream.ShardStream._hello

    def first(self: Any) -> None:
        if self._generation == 0:
            hello(self)

    patch.setattr(_stream.ShardStream, "_hello", first)


def other_first_rows(patch: Patch) -> None:
    patch.setattr(first_rows, "_INIT_PART", 1)


def best_of_one_shard(patch: Patch) -> None:
    from dslide import _predictions

    best = _predictions._best_of
    patch.setattr(_predictions, "_best_of", lambda answers, n, k: best(answers[:1], n, k))


def file_order(patch: Patch) -> None:
    patch.setattr(
        order.EpochOrder, "points_at", lambda self, first, count: np.arange(first, first + count)
    )


def other_family(patch: Patch) -> None:
    made = hashing.hash_family

    def swapped(spec: Any, dim: int) -> Any:
        other = type(spec)()
        other.CopyFrom(spec)
        other.seed = spec.seed + 1
        return made(other, dim)

    patch.setattr(_network.hashing, "hash_family", swapped)


def cut_off_bf16(patch: Patch) -> None:
    def cut(x: Any) -> Any:
        return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)

    patch.setattr(arrays, "to_bf16", cut)


def sums_without_maxima(patch: Patch) -> None:
    def naive(parts: Any, batch: int) -> Any:
        highest, sums = _network._sums_of(parts, batch)
        return highest.max(axis=0) + np.log(sums.sum(axis=0))

    patch.setattr(_network, "softmax_sums", naive)


def unmasked(patch: Patch) -> None:
    patch.setattr(_network, "mask_gradient", lambda activated, probability, gradient: gradient)
    # Nor may the shards do it for the client.
    head_backward = shard_pb2.HeadBackward

    def whole(*, rectified: bool, **fields: Any) -> Any:
        del rectified
        return head_backward(**fields)

    patch.setattr(shard_pb2, "HeadBackward", whole)


def early_rounding(patch: Patch) -> None:
    activate = _network.activate
    patch.setattr(
        _network, "activate", lambda x, dropout, layer, _: activate(x, dropout, layer, True)
    )


def dense_without_activation(patch: Patch) -> None:
    activate = _network.activate

    def only_last(x: Any, dropout: Any, layer: int, rounds: bool) -> Any:
        return activate(x, dropout, layer, rounds) if rounds else x

    patch.setattr(_network, "activate", only_last)


def dense_rows_everywhere(patch: Patch) -> None:
    join = _network.join_dense

    def everywhere(table: Any, parts: Any) -> Any:
        layer = join(table, parts)
        layer.rows[:] = [np.arange(table.rows, dtype=np.uint32) for _ in parts]
        return layer

    patch.setattr(_network, "join_dense", everywhere)


def another_draw_of_units(patch: Patch) -> None:
    patch.setattr(_network, "_HIDDEN_DROPOUT", 1)


def another_draw_of_features(patch: Patch) -> None:
    patch.setattr(_network, "_INPUT_DROPOUT", 1)


def unscaled_units(patch: Patch) -> None:
    activate = _network.activate

    def unscaled(x: Any, dropout: Any, layer: int, rounds: bool) -> Any:
        y = activate(x, dropout, layer, rounds)
        return y * (np.float32(1) - np.float32(dropout.probability))

    patch.setattr(_network, "activate", unscaled)


def unscaled_gradients(patch: Patch) -> None:
    mask = _network.mask_gradient
    patch.setattr(
        _network, "mask_gradient", lambda activated, p, gradient: mask(activated, 0, gradient)
    )


def shared_targets(patch: Patch) -> None:
    """Each of a sample's labels has a part of 1, as with softmax."""
    forward = _pipeline.StepPipeline._after_embed_forward

    def shared(self: Any, step: Any, answers: Any) -> None:
        counts = sum(np.diff(mine.offsets) for mine in step.batch.labels)
        step.batch.targets = (1 / counts).astype(np.float32)
        forward(self, step, answers)

    patch.setattr(_pipeline.StepPipeline, "_after_embed_forward", shared)


def partitions_of_the_sigmoid(patch: Patch) -> None:
    combine = _network.combine_loss

    def with_partitions(*args: Any) -> Any:
        loss = combine(*args)
        return _network.Loss(loss.loss_sum, np.zeros(len(args[3]), np.float32))

    patch.setattr(_network, "combine_loss", with_partitions)


def softmax_of_the_sigmoid(patch: Patch) -> None:
    """The loss that it reports is that of softmax."""
    combine = _network.combine_loss

    def other(loss: str, *args: Any) -> Any:
        found = combine(loss, *args)
        return _network.Loss(combine("softmax", *args).loss_sum, found.log_partitions)

    patch.setattr(_network, "combine_loss", other)


def constant_rate(patch: Patch) -> None:
    patch.setattr(_pipeline, "learning_rate", lambda optimizer, step: optimizer.learning_rate)


def unfinished_leases(patch: Patch) -> None:
    """Reports a lease as soon as it has it, before anything is trained."""
    train = trainer.Trainer._train_chunk

    def early(self: Any, lease: Any) -> bool:
        report = trainer.coordinator_pb2.WorkReport(lease_id=lease.lease_id, samples=lease.count)
        self._leases.finish(report)
        self._leases.ask(want_work=False)
        return train(self, lease)

    patch.setattr(trainer.Trainer, "_train_chunk", early)
