"""Labelled sparse points in memory, what is made of their values, and points from arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dslide import _random
from dslide.errors import InvalidArgumentError
from dslide.ragged import Ragged

MAX_ID = 1 << 31


@dataclass(frozen=True)
class Data:
    """Points with sparse inputs and label sets; ids ascend strictly within a point.

    Attributes
    ----------
    features : Ragged with values, ids in [0, num_features)
    labels : Ragged without values, ids in [0, num_labels)
    fingerprint : all trainers of a job must agree on it; that of a file is the C++ programs'
    name : where the points come from, for messages
    feature_names, label_names : what they are called, by number; empty: nothing says
    """

    features: Ragged
    labels: Ragged
    num_features: int
    num_labels: int
    fingerprint: int = 0
    name: str = field(default="the data", compare=False)
    feature_names: Sequence[str] = field(default=(), compare=False)
    label_names: Sequence[str] = field(default=(), compare=False)

    @property
    def num_points(self) -> int:
        return self.features.samples

    def take(self, points: npt.NDArray[np.int64]) -> tuple[Ragged, Ragged]:
        """Features and labels of some points, in that order; values are copies."""
        return _take(self.features, points), _take(self.labels, points)


def _take(ragged: Ragged, samples: npt.NDArray[np.int64]) -> Ragged:
    counts = np.diff(ragged.offsets)[samples]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    # Position i of the result is i - offsets[s] + ragged.offsets[samples[s]].
    places = np.arange(offsets[-1]) + np.repeat(ragged.offsets[samples] - offsets[:-1], counts)
    return Ragged(
        offsets, ragged.ids[places], None if ragged.values is None else ragged.values[places]
    )


# --- Arrays ---------------------------------------------------------------------------------------


def _csr(matrix: Any, what: str) -> tuple[Ragged, int]:
    if hasattr(matrix, "indptr"):
        indptr, indices, values = matrix.indptr, matrix.indices, matrix.data
        columns = int(matrix.shape[1])
    else:
        try:
            values, indices, indptr = matrix
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                f"{what} is {type(matrix).__name__}, must be a CSR matrix or (values, indices, "
                "indptr)"
            ) from None
        columns = int(np.max(indices)) + 1 if len(indices) else 0
    offsets = np.asarray(indptr, dtype=np.int64)
    ids = np.asarray(indices)
    numbers = np.asarray(values, dtype=np.float32)
    if (
        offsets.ndim != 1
        or len(offsets) < 1
        or offsets[0] != 0
        or (np.diff(offsets) < 0).any()
        or offsets[-1] != len(ids)
        or len(ids) != len(numbers)
    ):
        raise InvalidArgumentError(
            f"{what}: indptr must ascend from 0 to the {len(ids)} indices, of which each has one "
            f"of {len(numbers)} values"
        )
    if len(ids) and (ids.min() < 0 or ids.max() >= min(columns, MAX_ID)):
        raise InvalidArgumentError(f"{what}: an index is outside [0, {columns})")
    if not np.isfinite(numbers).all():
        place = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InvalidArgumentError(f"{what}: value {place} is {numbers[place]}, must be finite")
    return sorted_within_samples(Ragged(offsets, ids.astype(np.uint32), numbers), what), columns


def sorted_within_samples(ragged: Ragged, what: str) -> Ragged:
    """With ids that ascend within each sample; refuses an id that a sample has twice."""
    sample_of = ragged.sample_of()
    keys = (sample_of.astype(np.uint64) << np.uint64(32)) | ragged.ids
    if not (keys[1:] > keys[:-1]).all():
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        twice = np.flatnonzero(keys[1:] == keys[:-1])
        if len(twice):
            key = int(keys[twice[0]])
            raise InvalidArgumentError(f"{what}: point {key >> 32} has id {key & 0xFFFFFFFF} twice")
        ragged = Ragged(
            ragged.offsets,
            ragged.ids[order],
            None if ragged.values is None else ragged.values[order],
        )
    return ragged


def from_arrays(
    x: Any,
    labels: Any,
    *,
    num_features: int = 0,
    num_labels: int = 0,
    name: str = "the arrays",
    feature_names: Sequence[str] = (),
    label_names: Sequence[str] = (),
) -> Data:
    """Points from arrays.

    Parameters
    ----------
    x : a scipy CSR matrix [points, features], or (values, indices, indptr)
    labels : a list of label ids for each point, or a CSR matrix whose non-zero columns are them
    num_features, num_labels : 0: from the arrays, and from the names
    feature_names, label_names : what they are called, by number; whoever predicts sees them

    The fingerprint covers all of the content; trainers on other machines that are given equal
    arrays agree on it.
    """
    features, columns = _csr(x, "x")
    if hasattr(labels, "indptr"):
        found, label_columns = _csr(labels, "labels")
        kept = found.values != 0 if found.values is not None else np.ones(len(found.ids), bool)
        counts = np.bincount(found.sample_of()[kept], minlength=found.samples)
        truth = Ragged(np.concatenate([[0], np.cumsum(counts)]), found.ids[kept])
    else:
        truth, label_columns = _label_lists(labels)
    if truth.samples != features.samples:
        raise InvalidArgumentError(
            f"x has {features.samples} points, labels has {truth.samples}: give one list for each"
        )
    sizes = []
    for what, wanted, there, names in (
        ("feature", num_features, columns, feature_names),
        ("label", num_labels, label_columns, label_names),
    ):
        if wanted and wanted < there:
            raise InvalidArgumentError(f"num_{what}s is {wanted}, but the arrays have {there}")
        size = max(wanted, there, 1)
        if len(names) and len(names) < size:
            raise InvalidArgumentError(
                f"{what}_names has {len(names)} names, but there are {size} {what}s"
            )
        sizes.append(max(size, len(names)))
    fingerprint = key_of_shape(features.samples, *sizes)
    for array in (features.offsets, features.ids, features.values, truth.offsets, truth.ids):
        assert array is not None
        fingerprint = _hash_array(fingerprint, array)
    return Data(
        features,
        truth,
        sizes[0],
        sizes[1],
        fingerprint,
        name,
        tuple(map(str, feature_names)),
        tuple(map(str, label_names)),
    )


def _label_lists(labels: Sequence[Sequence[int]]) -> tuple[Ragged, int]:
    counts = [len(some) for some in labels]
    offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    ids = np.concatenate(
        [
            np.empty(0, np.int8),  # an empty list has no type of its own
            *(np.asarray(some).reshape(-1) for some in labels if len(some)),
        ]
    )
    if len(ids) and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= MAX_ID):
        raise InvalidArgumentError(
            f"labels must be integers in [0, {MAX_ID}), found {ids.dtype} "
            f"from {ids.min()} to {ids.max()}"
        )
    return sorted_within_samples(Ragged(offsets, ids.astype(np.uint32)), "labels"), int(
        ids.max()
    ) + 1 if len(ids) else 0


def key_of_shape(points: int, features: int, labels: int) -> int:
    key = _random.derive_key(_random.derive_key(points, features), labels)
    return int(key)


def _hash_array(key: int, array: npt.NDArray[Any]) -> int:
    # Order matters: the counter of each word is its place.
    data = np.ascontiguousarray(array)
    words = data.view(np.uint32).astype(np.uint64)
    mixed = np.bitwise_xor.reduce(_random.counter_bits(words, np.arange(len(words))), initial=0)
    return int(_random.counter_bits(_random.counter_bits(key, len(words)), mixed))


# --- Values ---------------------------------------------------------------------------------------


def compute_idf(data: Data, training_points: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """ln((1 + points) / (1 + points with the feature)) over training points, [num_features]."""
    features, _ = data.take(training_points)
    counts = np.bincount(features.ids, minlength=data.num_features)
    idf: npt.NDArray[np.float32] = np.log((1.0 + len(training_points)) / (1.0 + counts)).astype(
        np.float32
    )
    return idf


def transform(features: Ragged, kind: str, idf: npt.NDArray[np.float32] | None) -> Ragged:
    """The values of points as the model sees them: "raw", "l2" or "tf_idf" (docs/start/data.md)."""
    if kind == "raw":
        return features
    assert features.values is not None
    values = features.values
    if kind == "tf_idf":
        assert idf is not None
        size = np.abs(values)
        damped = np.copysign(np.float32(1) + np.log(np.maximum(size, np.float32(1))), values)
        values = np.where(size < 1, values, damped).astype(np.float32) * idf[features.ids]
    sample_of = features.sample_of()
    squares = np.bincount(sample_of, values.astype(np.float64) ** 2, minlength=features.samples)
    scale = 1.0 / np.sqrt(np.where(squares == 0.0, 1.0, squares))
    return Ragged(features.offsets, features.ids, (values * scale[sample_of]).astype(np.float32))
