"""A network with hidden layers of its own, and the heads that are compared: on shards, and dense.

A head has `loss(hidden, labels)`, `step()` after its backward, `best(hidden)`, and
`scale_rates(factor)` for the steps to come.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import dslide
import dslide.torch
import numpy
import scipy.sparse
import torch

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "peers/workers")]

import run_dense  # noqa: E402

WIDTH = 128


@dataclasses.dataclass(frozen=True)
class Points:
    """x : features, rows of unit length; y : labels, ones. Every point has a label."""

    x: scipy.sparse.csr_matrix
    y: scipy.sparse.csr_matrix

    @staticmethod
    def read(path: str, most: int = 0) -> Points:
        """Those of a sparse text file, the first `most` of them; 0: all."""
        data = dslide.read_sparse(path)
        parts = []
        for ragged, columns in ((data.features, data.num_features), (data.labels, data.num_labels)):
            values = numpy.ones(len(ragged.ids), numpy.float32)
            if ragged.values is not None:
                squares = numpy.bincount(
                    ragged.sample_of(), ragged.values.astype("d") ** 2, ragged.samples
                )
                values = (ragged.values / numpy.sqrt(squares)[ragged.sample_of()]).astype("f")
            parts.append(
                scipy.sparse.csr_matrix(
                    (values, ragged.ids.astype(numpy.int64), ragged.offsets),
                    shape=(ragged.samples, columns),
                )
            )
        x, y = parts
        labelled = numpy.flatnonzero(numpy.diff(y.indptr))
        labelled = labelled[: most or len(labelled)]
        return Points(x[labelled], y[labelled])

    def __len__(self) -> int:
        return int(self.x.shape[0])

    def first_labels(self) -> torch.Tensor:
        """One label of each point."""
        return torch.from_numpy(self.y.indices[self.y.indptr[:-1]].astype(numpy.int64))


def scale_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Of the rate that it was made with."""
    for group in optimizer.param_groups:
        group["lr"] = factor * optimizer.defaults["lr"]


class Body(torch.nn.Module):
    """A bag of embeddings and two layers: the user's own, trained by the user's optimizers."""

    def __init__(
        self, features: int, rate: float, kind: str = "adam", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(features, WIDTH, mode="sum", sparse=True)
        torch.nn.init.normal_(self.bag.weight, std=WIDTH**-0.5)  # of rows of unit length
        self.layers = torch.nn.Sequential(
            torch.nn.ReLU(),
            torch.nn.Linear(WIDTH, WIDTH),
            torch.nn.ReLU(),
            torch.nn.Dropout(dropout),
        )
        wide, others = [self.bag.weight], list(self.layers.parameters())
        self.optimizers: tuple[torch.optim.Optimizer, ...] = (
            torch.optim.SGD(wide, rate),
            torch.optim.SGD(others, rate),
        )
        if kind == "adam":
            self.optimizers = (
                torch.optim.SparseAdam(wide, rate),
                torch.optim.Adam(others, rate / 10, fused=True),
            )

    def forward(self, x: scipy.sparse.csr_matrix) -> torch.Tensor:
        """[rows of x, WIDTH]"""
        ids, starts = (
            torch.from_numpy(array.astype(numpy.int64)) for array in (x.indices, x.indptr[:-1])
        )
        bags = self.bag(ids, starts, per_sample_weights=torch.from_numpy(x.data))
        return self.layers(bags)

    def scale_rates(self, factor: float) -> None:
        for optimizer in self.optimizers:
            scale_rate(optimizer, factor)

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()


class ShardedHead:
    """The head of this project. optimizer : further settings of the rows', as in a model spec"""

    def __init__(
        self,
        labels: int,
        rate: float,
        kind: str = "adam",
        *,
        optimizer: Mapping[str, Any] = MappingProxyType({}),
        **settings: Any,
    ) -> None:
        self.rate = rate
        self.module = dslide.torch.LinearCrossEntropyLoss(
            WIDTH, labels, optimizer={"kind": kind, "learning_rate": rate, **optimizer}, **settings
        )

    def scale_rates(self, factor: float) -> None:
        self.module.learning_rate = factor * self.rate

    def loss(self, hidden: torch.Tensor, labels: Any) -> torch.Tensor:
        return self.module(hidden, labels)

    def step(self) -> None:
        """Its rows have learnt in the backward."""

    def best(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.module.predict(hidden, 1)[1][:, 0]


class LinearHead:
    """`nn.Linear` and cross-entropy, with an optimizer for all rows."""

    def __init__(
        self,
        labels: int,
        rate: float,
        kind: str = "adam",
        *,
        bias: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.module = self._made(labels, bias, dtype)
        self.dtype = dtype
        optimizer = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[kind]
        self.optimizer = optimizer(self.module.parameters(), rate, fused=True)

    def _made(self, labels: int, bias: bool, dtype: torch.dtype) -> torch.nn.Module:
        return torch.nn.Linear(WIDTH, labels, bias=bias, dtype=dtype)

    def loss(self, hidden: torch.Tensor, labels: Any) -> torch.Tensor:
        """labels : class ids, or a CSR matrix, whose rows share their target."""
        logits = self.module(hidden.to(self.dtype))
        if isinstance(labels, torch.Tensor):
            return torch.nn.functional.cross_entropy(logits, labels)
        return run_dense.loss_of(logits, labels)

    def scale_rates(self, factor: float) -> None:
        scale_rate(self.optimizer, factor)

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()

    def best(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.module(hidden.to(self.dtype)).argmax(dim=1)


class FusedHead(LinearHead):
    """PyTorch's own `nn.LinearCrossEntropyLoss`, which never holds all logits; class ids only."""

    def _made(self, labels: int, bias: bool, dtype: torch.dtype) -> torch.nn.Module:
        options = torch.nn.LinearCrossEntropyOptions()
        return torch.nn.LinearCrossEntropyLoss(
            WIDTH, labels, bias=bias, dtype=dtype, options=options
        )

    def loss(self, hidden: torch.Tensor, labels: Any) -> torch.Tensor:
        return self.module(hidden.to(self.dtype), labels)


def precision_at_1(body: Body, head: Any, points: Points, batch: int = 256) -> float:
    body.eval()
    hits = 0.0
    with torch.no_grad():
        for begin in range(0, len(points), batch):
            part = slice(begin, min(begin + batch, len(points)))
            # scipy cannot index with memory that belongs to a tensor.
            first = head.best(body(points.x[part])).numpy().copy()
            hits += points.y[part][numpy.arange(len(first)), first].sum()
    body.train()
    return float(hits / len(points))
