"""PyTorch modules whose rows live on shards: a wide head with its loss, and a wide input.

    hidden = torch.nn.Sequential(torch.nn.Linear(768, 128), torch.nn.ReLU())
    loss = dslide.torch.LinearCrossEntropyLoss(128, 670_091, cluster="127.0.0.1:7000")
    optimizer = torch.optim.Adam(hidden.parameters())
    loss(hidden(x), labels).backward()  # the shards have updated the head's rows
    optimizer.step()

Rows are updated in `backward`, by the optimizer of their table on the shards; layers between them
train with any optimizer of PyTorch. Rows are float32. Needs PyTorch 2: `pip install
'dslide[torch]'`.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"dslide.torch needs PyTorch 2 ({error}): pip install 'dslide[torch]'"
    ) from error

from dslide.torch._bag import WideEmbeddingBag
from dslide.torch._loss import HashedOptions, LinearCrossEntropyLoss

__all__ = ["HashedOptions", "LinearCrossEntropyLoss", "WideEmbeddingBag"]
