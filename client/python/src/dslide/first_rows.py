"""First values of rows: a pure function of (model seed, table name, row id)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dslide import _random
from dslide.v1 import model_pb2

_INIT_PART = 0x1417


def first_rows(
    table: model_pb2.TableSpec, model_seed: int, ids: npt.ArrayLike
) -> npt.NDArray[np.float32]:
    """The weights with which rows of a table begin, float32 [len(ids), dim]; biases begin as 0."""
    rows = np.asarray(ids, dtype=np.uint64)
    key = _random.derive_key(
        _random.derive_key(model_seed, _INIT_PART), _random.key_of_name(table.name)
    )
    bits = _random.counter_bits(_random.derive_key(key, rows)[:, None], np.arange(table.dim))
    scale = np.float32(table.init.scale if table.init.scale > 0 else 1.0 / math.sqrt(table.dim))
    if table.init.kind == "zero":
        return np.zeros(bits.shape, dtype=np.float32)
    if table.init.kind == "uniform":
        return scale * (np.float32(2) * _random.uniform(bits) - np.float32(1))
    # A uniform deviate plus a binomial one of 40 fair bits, brought to variance 1.
    unit = scale / np.sqrt(np.float32(10) + np.float32(1) / np.float32(12))
    fraction = (bits & np.uint64(0xFFFFFF)).astype(np.float32) * np.float32(2.0**-24) + np.float32(
        2.0**-25
    )
    ones = _random.count_ones(bits >> np.uint64(24)).astype(np.float32)
    values: npt.NDArray[np.float32] = unit * (ones - np.float32(20.5) + fraction)
    return values
