"""Train networks with very wide layers on a dslide cluster.

    import dslide

    with dslide.local(shards=2) as cluster:
        with dslide.Trainer(cluster, "docs/models/citeulike-t.json", "train.txt") as trainer:
            print(trainer.train(), trainer.evaluate("test.txt"))

`dslide.connect` reaches a running cluster, `dslide.aio.connect` does so for asyncio. What goes
wrong is a `dslide.DslideError`.

`dslide.WideClassifier` is a scikit-learn estimator, `dslide.torch` has modules for PyTorch; both
are loaded when they are first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from dslide import aio, serving
from dslide._evaluation import Precision
from dslide._predictions import Selection, TopK
from dslide._rows import Rows
from dslide._transport import Tls
from dslide._version import __version__
from dslide.client import Client, Model, connect
from dslide.data import Data, from_arrays
from dslide.errors import (
    AbortedError,
    AlreadyExistsError,
    DataLossError,
    DeadlineExceededError,
    DslideError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from dslide.local import LocalCluster, local
from dslide.memory import keep_freed_memory
from dslide.sparse_text import read_sparse
from dslide.spec import ModelSpec, load_spec
from dslide.trainer import Report, Trainer

if TYPE_CHECKING:
    from dslide import sklearn, torch
    from dslide.sklearn import WideClassifier

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "Client",
    "Data",
    "DataLossError",
    "DeadlineExceededError",
    "DslideError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "LocalCluster",
    "Model",
    "ModelSpec",
    "NotFoundError",
    "PermissionDeniedError",
    "Precision",
    "Report",
    "ResourceExhaustedError",
    "Rows",
    "Selection",
    "Tls",
    "TopK",
    "Trainer",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "WideClassifier",
    "__version__",
    "aio",
    "connect",
    "from_arrays",
    "keep_freed_memory",
    "load_spec",
    "local",
    "read_sparse",
    "serving",
    "sklearn",
    "torch",
]


def __getattr__(name: str) -> Any:
    """What needs packages that dslide does without."""
    if name in ("sklearn", "torch"):
        return importlib.import_module(f"dslide.{name}")
    if name == "WideClassifier":
        return importlib.import_module("dslide.sklearn").WideClassifier
    raise AttributeError(f"module 'dslide' has no attribute {name!r}")
