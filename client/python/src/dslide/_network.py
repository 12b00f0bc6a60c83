"""The arithmetic that a trainer does itself: what lies between the wide input and the wide output.

Conventions: matrices are row-major, [rows, cols]; B samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dslide import _random, arrays, hashing
from dslide.errors import InternalError, InvalidArgumentError
from dslide.ragged import Ragged
from dslide.spec import resolved_head
from dslide.v1 import common_pb2, model_pb2, shard_pb2

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
_HIDDEN_DROPOUT = 0x68646F
_INPUT_DROPOUT = 0x696E64


class Network:
    """The tables of a model in the order of the forward pass: embedding, dense layers, head."""

    def __init__(self, spec: model_pb2.ModelSpec) -> None:
        roles = [table.role for table in spec.tables]
        chain = ["embedding", *["dense"] * (len(roles) - 2), "head"]
        if len(roles) < 2 or roles != chain:
            raise InvalidArgumentError(
                f"model {spec.name!r} cannot be trained: its {len(roles)} tables must be one "
                "embedding, any number of dense layers and one head"
            )
        self.spec = spec
        self.embedding = spec.tables[0]
        self.dense = list(spec.tables[1:-1])
        self.head = spec.tables[-1]
        self.num_features = self.embedding.rows - int(self.embedding.bias_row)
        self.num_labels = self.head.rows
        self.bias_row = base_rows(self.embedding) - 1
        self.family = (
            hashing.hash_family(resolved_head(self.head).hash, self.head.dim)
            if self.head.head.max_active > 0
            else None
        )
        self.bf16 = spec.activations == "bf16"


@dataclass(frozen=True)
class HiddenDropout:
    """Which hidden units are left out: a pure function of (seed, epoch, point, layer, unit)."""

    probability: float = 0.0
    seed: int = 0
    epoch: int = 0
    points: I64 = field(default_factory=lambda: np.empty(0, np.int64))


def input_dropout(
    features: Ragged, probability: float, seed: int, epoch: int, points: I64
) -> Ragged:
    """Leaves out features, and scales those that stay; a pure function of (seed, epoch, point)."""
    assert features.values is not None
    p = np.float32(probability)
    epoch_key = _random.derive_key(_random.derive_key(seed, _INPUT_DROPOUT), epoch)
    keys = _random.derive_key(epoch_key, points)
    counts = np.diff(features.offsets)
    place = np.arange(len(features.ids)) - np.repeat(features.offsets[:-1], counts)
    kept = _random.uniform(_random.counter_bits(np.repeat(keys, counts), place)) >= p
    offsets = np.concatenate(
        [[0], np.cumsum(np.bincount(features.sample_of()[kept], minlength=features.samples))]
    )
    scale = np.float32(1) / (np.float32(1) - p)
    return Ragged(offsets, features.ids[kept], features.values[kept] * scale)


def base_rows(table: model_pb2.TableSpec) -> int:
    """The rows for which the table was made: it may have been given more since."""
    return table.base_rows or table.rows


def with_bias_row(features: Ragged, row: int) -> Ragged:
    """Every sample with one more feature of value 1; those from its number on move up by one."""
    assert features.values is not None
    behind = features.ids >= row
    before = np.concatenate([[0], np.cumsum(~behind)])
    places = features.offsets[:-1] + before[features.offsets[1:]] - before[features.offsets[:-1]]
    return Ragged(
        features.offsets + np.arange(len(features.offsets)),
        np.insert(features.ids + behind.astype(np.uint32), places, np.uint32(row)),
        np.insert(features.values, places, np.float32(1)),
    )


def activate(x: F32, dropout: HiddenDropout, layer: int, round_to_bf16: bool) -> F32:
    """max(x, 0), then dropout, then rounding to bf16 and back where asked for."""
    y = np.maximum(x, np.float32(0))
    if dropout.probability > 0:
        p = np.float32(dropout.probability)
        key = _random.derive_key(dropout.seed, _HIDDEN_DROPOUT)
        for part in (layer, dropout.epoch):
            key = _random.derive_key(key, part)
        keys = _random.derive_key(key, dropout.points)
        draws = _random.uniform(_random.counter_bits(keys[:, None], np.arange(x.shape[1])))
        scale = np.float32(1) / (np.float32(1) - p)
        y = np.where(draws < p, np.float32(0), y * scale)
    return arrays.from_bf16(arrays.to_bf16(y)) if round_to_bf16 else y


def mask_gradient(activated: F32, probability: float, gradient: F32) -> F32:
    """The gradient where a unit was active, scaled as the dropout has scaled the unit."""
    scale = np.float32(1) / (np.float32(1) - np.float32(probability))
    return np.where(activated > 0, gradient * scale, np.float32(0))


@dataclass(frozen=True)
class DenseLayer:
    """weights float32 [out, in], biases float32 [out]; rows[s] are those of shard s."""

    weights: F32
    biases: F32
    rows: list[npt.NDArray[np.uint32]]


def join_dense(table: model_pb2.TableSpec, parts: Sequence[common_pb2.RowBlock]) -> DenseLayer:
    """Puts the shards' parts of a small table together."""
    weights = np.empty((table.rows, table.dim), dtype=np.float32)
    biases = np.empty(table.rows, dtype=np.float32)
    rows = [arrays.ids(part.row_ids) for part in parts]
    if not np.array_equal(np.sort(np.concatenate(rows)), np.arange(table.rows)):
        raise InternalError(
            f"table {table.name!r}: the shards did not send each of its {table.rows} rows once"
        )
    for mine, part in zip(rows, parts):
        if len(mine):
            weights[mine] = arrays.from_matrix(part.values)
            biases[mine] = arrays.floats(part.biases)
    return DenseLayer(weights, biases, rows)


def add_partials(parts: Sequence[common_pb2.Matrix], batch: int, width: int) -> F32:
    """The sum of the shards' partial sums, in shard order, float32 [batch, width]."""
    total = np.zeros((batch, width), dtype=np.float32)
    for shard, part in enumerate(parts):
        if (part.rows, part.cols) != (batch, width):
            raise InternalError(
                f"shard {shard} answered [{part.rows}, {part.cols}], expected [{batch}, {width}]"
            )
        total += arrays.from_matrix(part)
    return total


@dataclass(frozen=True)
class Loss:
    """loss_sum over the samples; log_partitions float32 [B], empty for the sigmoid."""

    loss_sum: float
    log_partitions: F32


def _sums_of(parts: Sequence[shard_pb2.HeadForwardResult], batch: int) -> tuple[F64, F64]:
    """The shards' largest logits and sums, both [shards, batch]."""
    highest = np.stack([arrays.floats(part.max_logits) for part in parts]).astype(np.float64)
    sums = np.stack([arrays.floats(part.exp_sums) for part in parts]).astype(np.float64)
    if highest.shape != (len(parts), batch) or sums.shape != highest.shape:
        raise InternalError(f"the shards answered {highest.shape[1]} samples; {batch} were asked")
    return highest, sums


def softmax_sums(parts: Sequence[shard_pb2.HeadForwardResult], batch: int) -> F64:
    """The logs of the softmax sums over the rows of all shards, [batch]."""
    highest, sums = _sums_of(parts, batch)
    top = highest.max(axis=0)
    # A shard without rows for a sample answers (-inf, 0).
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = np.where(sums != 0, np.exp(highest - top), 0.0)
        found: F64 = top + np.log((weights * sums).sum(axis=0))
    return found


def label_sums(parts: Sequence[shard_pb2.HeadForwardResult], labels: Sequence[Ragged]) -> F64:
    """The sums of the logits of each sample's labels, each times its value where it has one."""
    of_labels = np.zeros(labels[0].samples)
    for part, mine in zip(parts, labels):
        logits = arrays.floats(part.label_logits).astype(np.float64)
        if len(logits) != len(mine.ids):
            raise InternalError(
                f"a shard answered {len(logits)} labels; {len(mine.ids)} were asked"
            )
        if mine.values is not None:
            logits = logits * mine.values
        of_labels += np.bincount(mine.sample_of(), logits, minlength=mine.samples)
    return of_labels


def combine_loss(
    loss: str, parts: Sequence[shard_pb2.HeadForwardResult], labels: Sequence[Ragged], targets: F32
) -> Loss:
    """The softmax (or the sigmoid's sum) over the rows of all shards, in float64."""
    batch = len(targets)
    softmax = loss == "softmax"
    partition = softmax_sums(parts, batch) if softmax else _sums_of(parts, batch)[1].sum(axis=0)
    of_labels = label_sums(parts, labels)
    counts = np.zeros(batch)
    for mine in labels:
        counts += np.diff(mine.offsets)
    wide = targets.astype(np.float64)
    losses = (wide * counts if softmax else 1.0) * partition - wide * of_labels
    if not np.isfinite(losses).all():
        raise InvalidArgumentError(
            f"the loss of sample {int(np.flatnonzero(~np.isfinite(losses))[0])} of a batch is not "
            "finite: training has diverged; lower the learning rate"
        )
    return Loss(
        float(losses.sum()), partition.astype(np.float32) if softmax else np.empty(0, np.float32)
    )
