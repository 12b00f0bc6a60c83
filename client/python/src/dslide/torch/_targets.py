"""Targets of a cross-entropy, as lists of labels with their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dslide.data import sorted_within_samples
from dslide.ragged import Ragged

_TORCH_IGNORES = -100
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Targets:
    """labels : with values; a sample without any has no loss. norm : what a mean divides by."""

    labels: Ragged
    norm: float


@dataclass(frozen=True)
class TargetRules:
    """What a loss makes of its targets. weight : float32 [classes], or None: all 1."""

    classes: int
    weight: F32 | None
    ignore_index: int | None
    smoothing: float

    def read(self, target: Any, samples: int) -> Targets:
        """Targets of a batch.

        target : class ids, int64 [samples]; probabilities, float [samples, classes], dense or CSR
            (of PyTorch or SciPy); or multi-hot, integer or bool, in the same shapes
        """
        if isinstance(target, Tensor) and target.requires_grad:
            raise ValueError("target requires a gradient, which the shards do not give: detach it")
        if isinstance(target, Tensor) and target.layout == torch.strided and target.ndim < 2:
            if target.is_floating_point() and target.shape == (self.classes,) and samples == 1:
                return self._sparse(_dense(target[None]), samples)
            return self._class_ids(target, samples)
        if isinstance(target, Tensor) and target.layout == torch.strided:
            return self._sparse(_dense(target), samples)
        return self._sparse(_compressed(target), samples)

    def _class_ids(self, target: Tensor, samples: int) -> Targets:
        ids: I64 = target.detach().cpu().reshape(-1).numpy()
        if ids.dtype != np.int64 or len(ids) != samples:
            raise ValueError(
                f"target is {target.dtype} {list(target.shape)}, must be class ids, int64 "
                f"[{samples}], or probabilities, [{samples}, {self.classes}]"
            )
        ignored = ids == (_TORCH_IGNORES if self.ignore_index is None else self.ignore_index)
        outside = ~ignored & ((ids < 0) | (ids >= self.classes))
        if outside.any():
            raise IndexError(f"target {ids[outside][0]} is outside [0, {self.classes})")
        counted = ids[~ignored]
        weights = np.ones(len(counted)) if self.weight is None else self.weight[counted].astype("d")
        offsets = np.concatenate([[0], np.cumsum(~ignored)])
        labels = Ragged(offsets, counted.astype(np.uint32), weights.astype(np.float32))
        if self.smoothing > 0:
            labels = self._smoothed(labels, ~ignored)
        return Targets(labels, float(weights.sum()))

    def _sparse(self, labels: Ragged, samples: int) -> Targets:
        if labels.samples != samples:
            raise ValueError(f"target has {labels.samples} samples, the input has {samples}")
        if len(labels.ids) and int(labels.ids.max()) >= self.classes:
            raise IndexError(f"target {labels.ids.max()} is outside [0, {self.classes})")
        assert labels.values is not None
        if not (labels.values >= 0).all():  # also what is not a number
            raise ValueError(f"a target is {labels.values.min()}, must not be negative")
        if self.weight is not None:
            values = labels.values * self.weight[labels.ids]
            labels = Ragged(labels.offsets, labels.ids, values)
        if self.smoothing > 0:
            labels = self._smoothed(labels, np.ones(samples, bool))
        return Targets(labels, float(samples))

    def _smoothed(self, labels: Ragged, counted: npt.NDArray[np.bool_]) -> Ragged:
        """A part of every sample's target is spread over all classes."""
        assert labels.values is not None
        spread = np.full(self.classes, self.smoothing / self.classes)
        if self.weight is not None:
            spread *= self.weight
        values = np.where(counted[:, None], spread, 0.0)
        values[labels.sample_of(), labels.ids] += (1 - self.smoothing) * labels.values
        return _all_of(values[counted], counted)


def _all_of(values: npt.NDArray[np.float64], counted: npt.NDArray[np.bool_]) -> Ragged:
    """Every class of the counted samples."""
    rows, classes = values.shape
    offsets = np.concatenate([[0], np.cumsum(np.where(counted, classes, 0))])
    ids = np.tile(np.arange(classes, dtype=np.uint32), rows)
    return Ragged(offsets, ids, values.reshape(-1).astype(np.float32))


def _dense(target: Tensor) -> Ragged:
    if target.ndim != 2:
        raise ValueError(f"target has shape {list(target.shape)}, must be [samples, classes]")
    array = target.detach().cpu()
    sample, ids = array.nonzero(as_tuple=True)
    offsets = np.concatenate([[0], np.cumsum((array != 0).sum(dim=1).numpy())]).astype(np.int64)
    values = array[sample, ids].numpy()
    return _weighted(offsets, ids.numpy(), values)


def _compressed(target: Any) -> Ragged:
    if isinstance(target, Tensor) and target.layout == torch.sparse_csr:
        target = target.detach().cpu()
        indptr, indices = target.crow_indices().numpy(), target.col_indices().numpy()
        values = target.values().numpy()
    elif hasattr(target, "tocsr"):
        csr = target.tocsr()
        indptr, indices, values = csr.indptr, csr.indices, csr.data
    else:
        layout = target.layout if isinstance(target, Tensor) else type(target).__name__
        raise TypeError(f"target is {layout}, must be a tensor (dense or CSR) or a CSR matrix")
    return _weighted(indptr.astype(np.int64), indices, values)


def _weighted(offsets: I64, ids: npt.NDArray[Any], values: npt.NDArray[Any]) -> Ragged:
    """Floating-point values are probabilities; others say which labels share the sample."""
    if values.dtype.kind != "f":
        there = values != 0
        sample_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[there]
        counts = np.bincount(sample_of, minlength=len(offsets) - 1)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        ids, values = ids[there], 1.0 / counts[sample_of]
    return sorted_within_samples(
        Ragged(offsets, ids.astype(np.uint32), values.astype(np.float32)), "target"
    )
