"""A wide linear layer with the cross-entropy of its outputs."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dslide._steps import ForgottenStepError, HeadBatch, HeadResult, HeadSteps, StepLane
from dslide.client import Client
from dslide.errors import UnimplementedError
from dslide.ragged import Ragged
from dslide.torch._module import ShardedModule, as_floats
from dslide.torch._targets import TargetRules

F32 = npt.NDArray[np.float32]
_EXACT_UP_TO = 4096  # classes, without options; as `dslide train`


@dataclass(frozen=True)
class HashedOptions:
    """Which rows a sample touches in training.

    max_active : rows of a sample, its labels included
    tail_rows : random rows that estimate what the others add to the softmax sum
    tables : hash tables; 0: chosen
    exact : every row, whatever the others say
    hash : further settings of the head's hash, as in a model spec
    """

    max_active: int = 300
    tail_rows: int = 512
    tables: int = 0
    exact: bool = False
    hash: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def head(self, classes: int) -> dict[str, Any]:
        if self.exact or self.max_active >= classes:
            return {"max_active": 0, "tail_rows": 0}
        return {
            "max_active": self.max_active,
            "tail_rows": min(self.tail_rows, classes),
            "hash": {"num_tables": self.tables, **self.hash},
        }


class LinearCrossEntropyLoss(ShardedModule):
    """`torch.nn.LinearCrossEntropyLoss` with its rows on shards.

    Parameters
    ----------
    in_features, num_classes : of the linear layer
    bias : whether it has a learned bias
    weight : float [num_classes], by which the losses of classes are scaled; None: all 1
    reduction : "mean", "sum" or "none"
    ignore_index : class id without a loss; None: -100
    label_smoothing : [0, 1]; above 0 every class of every sample is sent, so for few classes
    options : HashedOptions; None: every row up to 4,096 classes, hashing beyond
    cluster : a dslide.Client, "host:port", or None: a local cluster of this process
    name : of the model in the cluster; one that is there is gone on with. None: a new one
    optimizer : of the rows, as in a model spec; None: Adam with a rate of 0.001
    out_features : only ()
    device, dtype : for compatibility; results are where and what the input is

    Rows begin as those of `nn.Linear`, biases with 0. `backward` updates rows at once, with the
    gradient of what it is called on: once for each `forward`. Gradients of the loss must not be
    negative, and loss scaling (GradScaler) would scale the rows' gradients. Raises ValueError and
    IndexError as PyTorch does, and `dslide.DslideError` for what the cluster says.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: HashedOptions | None = None,
        cluster: Client | str | None = None,
        name: str | None = None,
        optimizer: dict[str, Any] | None = None,
    ) -> None:
        if out_features != ():
            raise NotImplementedError(f"out_features is {out_features}, must be ()")
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"weight has shape {tuple(weight.shape)}, must be {(num_classes,)}")
        if weight is not None and not bool((weight >= 0).all()):
            raise ValueError("weight has a negative number, which the shards do not take")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"label_smoothing is {label_smoothing}, must be in [0, 1]")
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction is {reduction!r}, must be mean, sum or none")
        chosen = options or HashedOptions(exact=num_classes <= _EXACT_UP_TO)
        super().__init__(
            {
                "role": "head",
                "rows": num_classes,
                "dim": in_features,
                "init": {"kind": "uniform"},
                "head": {**chosen.head(num_classes), "fixed_bias": not bias},
            },
            cluster,
            name,
            optimizer,
        )
        if not bias:
            self._check_fixed_bias()
        self.in_features = in_features
        self.num_classes = num_classes
        self.has_bias = bias
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = chosen
        self.register_buffer("weight", weight)
        self._steps = HeadSteps(self._lane, self._table)

    def _check_fixed_bias(self) -> None:
        """An older shard leaves out what it does not know, and would learn biases."""
        if not all(part.spec.tables[0].head.fixed_bias for part in self._model.describe()):
            raise UnimplementedError(
                "the shards are of a version whose heads always learn a bias: pass bias=True, or "
                "start shards of this client's version"
            )

    def forward(
        self, input: Tensor, target: Any, *, return_lse: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The loss.

        Parameters
        ----------
        input : [in_features] or [samples, in_features]
        target : class ids, int64 [] or [samples]; probabilities, float [.., num_classes], dense or
            CSR (of PyTorch or SciPy); or multi-hot, bool or integer in the same shapes: the
            labels of a sample share its target
        return_lse : also the logs of the softmax sums, [] or [samples], without a gradient; an
            estimate where rows are hashed
        """
        hidden = self._samples(input)
        rules = TargetRules(
            self.num_classes,
            None if self.weight is None else as_floats(self.weight),
            self.ignore_index,
            self.label_smoothing,
        )
        targets = rules.read(target, len(hidden))
        losses, lse = _Head.apply(hidden, self._anchor, self, targets.labels)
        if self.reduction == "mean":
            loss = losses.sum() / targets.norm if targets.norm else losses.sum() * float("nan")
        elif self.reduction == "sum":
            loss = losses.sum()
        else:
            loss = losses.reshape(input.shape[:-1])
        return (loss, lse.reshape(input.shape[:-1])) if return_lse else loss

    def predict(self, x: Tensor, k: int = 5, *, hashed: bool = False) -> tuple[Tensor, Tensor]:
        """The k best classes: logits and int64 ids, both [.., k], best first.

        hashed : among the rows that hashing finds, instead of all
        """
        best = self._model.top_k("rows", as_floats(self._samples(x)), k, hashed=hashed)
        shape = (*x.shape[:-1], k)
        scores = torch.from_numpy(best.logits).to(x.device, x.dtype).reshape(shape)
        ids = torch.from_numpy(best.ids.astype(np.int64)).to(x.device).reshape(shape)
        return scores, ids

    def log_prob(self, x: Tensor, ids: Tensor | None = None) -> Tensor:
        """Exact log-probabilities, without a gradient: of all classes, [.., num_classes], or of
        `ids`, int64 [.., n]. Reads every row of the head."""
        hidden = self._samples(x).detach()
        wanted = None if ids is None else ids.reshape(len(hidden), -1)
        lse = torch.full((len(hidden),), -torch.inf, device=x.device, dtype=x.dtype)
        parts = []
        found = None if wanted is None else torch.full_like(wanted, 0, dtype=x.dtype)
        for first, logits in self._logits(hidden):
            lse = torch.logaddexp(lse, logits.logsumexp(dim=1))
            if wanted is None or found is None:
                parts.append(logits)
                continue
            here = (wanted >= first) & (wanted < first + logits.shape[1])
            places = torch.where(here, wanted - first, 0)
            found = torch.where(here, logits.gather(1, places), found)
        logits = torch.cat(parts, dim=1) if found is None else found
        return (logits - lse[:, None]).reshape(*x.shape[:-1], -1)

    def _logits(self, hidden: Tensor) -> Iterator[tuple[int, Tensor]]:
        for some in self._pieces():
            rows = self._model.gather_rows("rows", np.arange(some.start, some.stop))
            assert rows.biases is not None
            weights = torch.from_numpy(rows.values).to(hidden.device, hidden.dtype)
            biases = torch.from_numpy(rows.biases).to(hidden.device, hidden.dtype)
            yield some.start, hidden @ weights.T + biases

    def _samples(self, input: Tensor) -> Tensor:
        if input.ndim not in (1, 2) or input.shape[-1] != self.in_features:
            raise ValueError(
                f"input has shape {list(input.shape)}, must be [samples, {self.in_features}]"
            )
        return input.reshape(-1, self.in_features)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, "
            f"bias={self.has_bias}, reduction={self.reduction}, options={self.options}, "
            f"model_name={self.model_name}"
        )

    # --- State, with the names of PyTorch's module ------------------------------------------------

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        weights, biases = self._read()
        destination[f"{prefix}linear.weight"] = weights
        if self.has_bias:
            destination[f"{prefix}linear.bias"] = biases

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        bias = f"{prefix}linear.bias" if self.has_bias else None
        keys = (f"{prefix}linear.weight", bias)
        others = {key: value for key, value in state_dict.items() if key not in keys}
        super()._load_from_state_dict(
            others, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        self._load(state_dict, keys, missing_keys, error_msgs)


class _OpenStep:
    """A step whose backward may come: it ends with the graph that it is of."""

    def __init__(self, lane: StepLane) -> None:
        self.number = lane.begin()
        self._ends = weakref.finalize(self, lane.end, self.number)

    def end(self) -> None:
        self._ends()

    @property
    def is_open(self) -> bool:
        return self._ends.alive


class _Head(torch.autograd.Function):  # type: ignore[misc]
    """Losses and log-sums of samples, [B] each; its backward updates rows."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, anchor: Tensor, module: LinearCrossEntropyLoss, labels: Ragged
    ) -> tuple[Tensor, Tensor]:
        batch = HeadBatch(as_floats(hidden), labels)
        ctx.module, ctx.batch, ctx.kind = module, batch, (hidden.device, hidden.dtype)
        ctx.step = _OpenStep(module._lane)
        try:
            ctx.result = module._steps.forward(ctx.step.number, batch)
        except BaseException:
            ctx.step.end()
            raise
        losses = torch.from_numpy(ctx.result.losses).to(hidden.device, hidden.dtype)
        lse = torch.from_numpy(ctx.result.lse).to(hidden.device, hidden.dtype)
        ctx.mark_non_differentiable(lse)
        return losses, lse

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor | None, None, None, None]:
        factors = gradient.detach().to("cpu", torch.float64).numpy()
        if not (factors >= 0).all():
            raise ValueError(
                f"the gradient of a sample's loss is {factors.min():g}: shards descend, so it must "
                "not be negative"
            )
        device, dtype = ctx.kind
        if not factors.any():
            return torch.zeros(ctx.batch.hidden.shape, device=device, dtype=dtype), None, None, None
        found = _update(ctx, factors)
        return torch.from_numpy(found).to(device, dtype), None, None, None


def _update(ctx: Any, factors: npt.NDArray[np.float64]) -> F32:
    """Applies the gradient of the samples' losses times their factors; that of the hidden."""
    module: LinearCrossEntropyLoss = ctx.module
    scale = float(np.float32(min(factors.max(), 1.0)))
    if ctx.step.is_open and (factors == factors[0]).all() and factors[0] <= 1:
        with contextlib.suppress(ForgottenStepError):
            try:
                return _backward(module, ctx.step.number, ctx.batch, ctx.result, scale)
            finally:
                ctx.step.end()
    # Samples of unlike factors, or a second backward: the step is begun again. As the same one,
    # where that is still open, it draws the same tail rows.
    labels = ctx.batch.labels
    values = (labels.values * (factors / scale)[labels.sample_of()]).astype(np.float32)
    batch = HeadBatch(ctx.batch.hidden, Ragged(labels.offsets, labels.ids, values))
    step = ctx.step if ctx.step.is_open else _OpenStep(module._lane)
    try:
        result = module._steps.forward(step.number, batch)
        return _backward(module, step.number, batch, result, scale)
    finally:
        step.end()


def _backward(
    module: LinearCrossEntropyLoss, step: int, batch: HeadBatch, result: HeadResult, scale: float
) -> F32:
    sums = batch.sums()
    partitions = result.lse - np.log(np.where(sums > 0, sums, 1.0))
    return module._steps.backward(step, partitions, scale, module._rate())
