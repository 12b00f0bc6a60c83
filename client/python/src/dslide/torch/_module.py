"""What modules have in common whose rows are a table of a model in a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dslide._arguments import checked_floats
from dslide._clusters import shared_cluster
from dslide._io import chunked
from dslide._load import load_rows
from dslide._steps import StepLane
from dslide.client import Client
from dslide.errors import NotFoundError

F32 = npt.NDArray[np.float32]
T = TypeVar("T", bound="ShardedModule")
_BYTES_AT_ONCE = 64 << 20


def as_floats(x: Tensor) -> F32:
    """A tensor of any device and floating type as float32 in this process."""
    array: F32 = x.detach().to("cpu", torch.float32).contiguous().numpy()
    return array


class ShardedModule(nn.Module):  # type: ignore[misc]
    """A table of one model. Not for several threads; not to be copied or pickled.

    Attributes
    ----------
    model_name : in the cluster
    learning_rate : of the next updates; None: the table's own, by its schedule
    updates_rows : whether `backward` changes rows; `requires_grad_` sets it
    """

    def __init__(
        self,
        table: dict[str, Any],
        cluster: Client | str | None,
        name: str | None,
        optimizer: dict[str, Any] | None,
    ) -> None:
        super().__init__()
        client = cluster if isinstance(cluster, Client) else shared_cluster(cluster)
        self.model_name = name or f"torch-{os.urandom(6).hex()}"
        spec = {
            "name": self.model_name,
            "seed": self._seed(client, name),
            "tables": [{"name": "rows", "optimizer": optimizer or {}, **table}],
        }
        self._model = client.create_model(spec)
        self._table = self._model.spec.tables[0]
        self._lane = StepLane(client, self._model)
        self.learning_rate: float | None = None
        self.updates_rows = True
        # Its gradient is asked for where that of the input is not, so that rows are updated.
        self._anchor = torch.zeros((), requires_grad=True)

    @staticmethod
    def _seed(client: Client, name: str | None) -> int:
        """That of the model which is there already, whose rows are taken as they are."""
        if name is not None:
            try:
                return int(client.model(name).spec.seed)
            except NotFoundError:
                pass
        return int(torch.randint(1, 2**31 - 1, ()))

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Whether rows are updated by `backward`, beside what it does to other parameters."""
        super().requires_grad_(requires_grad)
        self.updates_rows = requires_grad
        return self

    def close(self) -> None:
        """Closes the streams to the shards; the next call opens new ones."""
        self._lane.close()

    def _rate(self) -> float | None:
        return self.learning_rate if self.updates_rows else 0.0

    # --- State --------------------------------------------------------------------------------

    def _pieces(self) -> Iterator[slice]:
        return chunked(self._table.rows, max(1, _BYTES_AT_ONCE // (4 * self._table.dim)))

    def _read(self) -> tuple[Tensor, Tensor]:
        """weights [rows, dim] and biases [rows]."""
        weights = np.empty((self._table.rows, self._table.dim), np.float32)
        biases = np.zeros(self._table.rows, np.float32)
        for some in self._pieces():
            rows = self._model.gather_rows(
                "rows", np.arange(some.start, some.stop), out=weights[some]
            )
            if rows.biases is not None:
                biases[some] = rows.biases
        return torch.from_numpy(weights), torch.from_numpy(biases)

    def _write(self, weights: F32, biases: F32 | None) -> None:
        """Replaces all rows; optimizers begin anew, and hash tables are built from the new rows."""
        bound = self._model.spec.magnitude_bound
        for array in (weights, biases):
            if array is not None and len(array) and float(np.abs(array).max()) > bound:
                raise ValueError(
                    f"a weight is {np.abs(array).max():g}, the shards take at most {bound:g}"
                )
        self._replace(np.arange(self._table.rows), weights, biases)

    def _replace(self, ids: npt.NDArray[np.int64], weights: F32, biases: F32 | None) -> None:
        applied = max(part.tables[0].applied_steps for part in self._model.describe())
        load_rows(self._lane, self._table, ids, weights, biases, applied)

    def _load(
        self,
        state: dict[str, Any],
        keys: tuple[str, str | None],
        missing: list[str],
        errors: list[str],
    ) -> None:
        """Rows from the entries of a state_dict; what is wrong goes to the lists, as in PyTorch."""
        shapes = ((self._table.rows, self._table.dim), (self._table.rows,))
        arrays: list[F32 | None] = []
        for key, shape in zip(keys, shapes):
            if key is None:
                arrays.append(None)
            elif key not in state:
                missing.append(key)
            elif tuple(state[key].shape) != shape:
                errors.append(
                    f"size mismatch for {key}: the state has {tuple(state[key].shape)}, "
                    f"the shards have {shape}"
                )
            else:
                arrays.append(checked_floats(as_floats(state[key]), shape, key))
        if len(arrays) == len(keys) and arrays[0] is not None:
            self._write(arrays[0], arrays[1])

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            f"{type(self).__name__} cannot be copied or pickled, its rows are in a cluster: save "
            "state_dict(), or make another module of the same name and cluster"
        )
