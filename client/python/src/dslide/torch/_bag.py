"""Sums and means of rows of a wide table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dslide._steps import EmbeddingSteps, ForgottenStepError
from dslide.client import Client
from dslide.ragged import Ragged
from dslide.torch._loss import _OpenStep
from dslide.torch._module import ShardedModule, as_floats

I64 = npt.NDArray[np.int64]


class WideEmbeddingBag(ShardedModule):
    """`torch.nn.EmbeddingBag` with its rows on shards.

    Parameters
    ----------
    num_embeddings, embedding_dim : rows, and floats of a row
    max_norm, scale_grad_by_freq : for compatibility: None and False
    mode : "mean" or "sum"
    sparse : for compatibility; only the rows of a batch are touched, always
    _weight : float [num_embeddings, embedding_dim], first values; None: normal ones
    include_last_offset : whether `offsets` ends with the number of ids
    padding_idx : an id that is no part of any bag
    device, dtype : for compatibility; results are where the ids are, float32
    cluster, name, optimizer : as of LinearCrossEntropyLoss

    `backward` updates the rows of the bags at once. Gradients of `per_sample_weights` are not
    given.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
        *,
        cluster: Client | str | None = None,
        name: str | None = None,
        optimizer: dict[str, Any] | None = None,
    ) -> None:
        if max_norm is not None or scale_grad_by_freq:
            raise NotImplementedError("max_norm and scale_grad_by_freq are not done by the shards")
        if mode not in ("mean", "sum"):
            raise NotImplementedError(f"mode is {mode!r}, must be mean or sum")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"padding_idx {padding_idx} is outside [0, {num_embeddings})")
        super().__init__(
            {
                "role": "embedding",
                "rows": num_embeddings,
                "dim": embedding_dim,
                "init": {"kind": "gaussian", "scale": 1.0},
            },
            cluster,
            name,
            optimizer,
        )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self._steps = EmbeddingSteps(self._lane, self._table)
        if _weight is not None:
            self.load_state_dict({"weight": _weight})
        elif self.padding_idx is not None:
            zeros = np.zeros((1, embedding_dim), np.float32)
            self._replace(np.array([self.padding_idx]), zeros, None)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """One vector for each bag, float32 [bags, embedding_dim].

        Parameters
        ----------
        input : ids, [bags, n], or [n] with `offsets`
        offsets : of 1-dimensional input: where each bag begins
        per_sample_weights : float, of the shape of `input`; with mode "sum"
        """
        bags = self._bags(input, offsets, per_sample_weights)
        anchor = self._anchor if self.updates_rows else self._anchor.detach()
        found: Tensor = _Bag.apply(anchor, self, bags, input.device)
        return found

    def _bags(self, input: Tensor, offsets: Tensor | None, weights: Tensor | None) -> Ragged:
        if input.ndim == 2 and offsets is None:
            starts = np.arange(input.shape[0] + 1, dtype=np.int64) * input.shape[1]
        elif input.ndim == 1 and offsets is not None:
            starts = offsets.detach().cpu().numpy().astype(np.int64)
            if not self.include_last_offset:
                starts = np.append(starts, input.shape[0])
        else:
            raise ValueError(
                f"input has shape {list(input.shape)}: give ids [bags, n] without offsets, or [n] "
                "with them"
            )
        ids: I64 = input.detach().cpu().reshape(-1).numpy()
        if ids.dtype.kind not in "iu":
            raise TypeError(f"input is {input.dtype}, must be integers")
        if len(starts) < 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
            raise ValueError("offsets must ascend from 0")
        if starts[-1] > len(ids) or (self.include_last_offset and starts[-1] != len(ids)):
            raise ValueError(f"offsets end at {starts[-1]}, there are {len(ids)} ids")
        if len(ids) and not 0 <= ids.min() <= ids.max() < self.num_embeddings:
            outside = ids[(ids < 0) | (ids >= self.num_embeddings)][0]
            raise IndexError(f"id {outside} is outside [0, {self.num_embeddings})")
        return self._summed(starts, ids, self._weights(input, weights))

    def _weights(self, input: Tensor, weights: Tensor | None) -> npt.NDArray[np.float32]:
        if weights is None:
            return np.ones(input.numel(), np.float32)
        if self.mode != "sum" or weights.shape != input.shape:
            raise ValueError(
                f"per_sample_weights of shape {list(weights.shape)} need mode='sum' and input of "
                "the same shape"
            )
        if weights.requires_grad:
            raise NotImplementedError(
                "per_sample_weights require a gradient, which the shards do not give: detach them"
            )
        return as_floats(weights).reshape(-1)

    def _summed(self, starts: I64, ids: I64, weights: npt.NDArray[np.float32]) -> Ragged:
        """Each id once in a bag, with the sum of its weights."""
        bags = len(starts) - 1
        bag_of = np.repeat(np.arange(bags), np.diff(starts))
        if self.padding_idx is not None:
            kept = ids != self.padding_idx
            bag_of, ids, weights = bag_of[kept], ids[kept], weights[kept]
        if self.mode == "mean":
            weights = (weights / np.bincount(bag_of, minlength=bags)[bag_of]).astype(np.float32)
        keys, place = np.unique(bag_of << 32 | ids, return_inverse=True)
        values = np.bincount(place, weights, minlength=len(keys)).astype(np.float32)
        counts = np.bincount(keys >> 32, minlength=bags)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Ragged(offsets, (keys & 0xFFFFFFFF).astype(np.uint32), values)

    def extra_repr(self) -> str:
        return (
            f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode}, "
            f"model_name={self.model_name}"
        )

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = self._read()[0]

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
        key = f"{prefix}weight"
        others = {name: value for name, value in state_dict.items() if name != key}
        super()._load_from_state_dict(
            others, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        self._load(state_dict, (key, None), missing_keys, error_msgs)


class _Bag(torch.autograd.Function):  # type: ignore[misc]
    """Vectors of bags, [B, dim]; its backward updates rows."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, module: WideEmbeddingBag, bags: Ragged, device: torch.device
    ) -> Tensor:
        ctx.module, ctx.bags, ctx.step = module, bags, _OpenStep(module._lane)
        return torch.from_numpy(module._steps.forward(ctx.step.number, bags)).to(device)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None, None]:
        module: WideEmbeddingBag = ctx.module
        step, floats = ctx.step, as_floats(gradient)
        try:
            if step.is_open:
                try:
                    module._steps.backward(step.number, floats, module._rate())
                    return None, None, None, None
                except ForgottenStepError:
                    pass
            step = _OpenStep(module._lane)  # a second backward
            module._steps.forward(step.number, ctx.bags)
            module._steps.backward(step.number, floats, module._rate())
        finally:
            ctx.step.end()
            step.end()
        return None, None, None, None
