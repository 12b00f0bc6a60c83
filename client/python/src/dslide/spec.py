"""Model specs: the messages, and the defaults of the C++ programs.

The JSON files of docs/models are the JSON form of the message.
"""

from __future__ import annotations

import functools
import importlib.resources
import math
import os
from typing import Any

from google.protobuf import json_format

from dslide.errors import InvalidArgumentError, NotFoundError
from dslide.v1 import model_pb2

ModelSpec = model_pb2.ModelSpec


@functools.cache
def _defaults() -> ModelSpec:
    """A model with one table of each role and every default (a test compares it with C++)."""
    text = importlib.resources.files("dslide").joinpath("default_spec.json").read_text("utf-8")
    return json_format.Parse(text, ModelSpec())


def _parse(source: str | os.PathLike[str] | dict[str, Any]) -> ModelSpec:
    origin = "the spec" if isinstance(source, dict) else os.fspath(source)
    try:
        if isinstance(source, dict):
            return json_format.ParseDict(source, ModelSpec())
        with open(source, encoding="utf-8") as file:
            return json_format.Parse(file.read(), ModelSpec())
    except FileNotFoundError:
        raise NotFoundError(f"there is no model spec {origin}") from None
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{origin} is no model spec: {error}") from None


def load_spec(source: str | os.PathLike[str] | dict[str, Any] | ModelSpec) -> ModelSpec:
    """A model spec with every field, from a message, its dictionary or the path of its JSON file.

    Fields that are left out have the defaults of the command line; `docs/models` has examples.
    """
    given = source if isinstance(source, ModelSpec) else _parse(source)
    if not given.tables:
        raise InvalidArgumentError('the spec has no "tables": it needs an embedding and a head')
    by_role = {table.role: table for table in _defaults().tables}
    spec = ModelSpec()
    spec.CopyFrom(_defaults())
    spec.MergeFrom(given)
    del spec.tables[:]
    for i, table in enumerate(given.tables):
        role = table.role if table.HasField("role") else "embedding"
        if role not in by_role:
            raise InvalidArgumentError(
                f"tables[{i}].role is {role!r}, must be one of {', '.join(by_role)}"
            )
        added = spec.tables.add()
        added.CopyFrom(by_role[role])
        added.MergeFrom(table)
    return spec


def _set_rows(table: model_pb2.TableSpec, rows: int, what: str) -> None:
    if table.rows == 0:
        table.rows = rows
    if table.rows != rows:
        raise InvalidArgumentError(
            f"table {table.name!r} of the model has {table.rows} rows, but the data has {what}, "
            f'which makes {rows}; leave "rows" out to take it from the data'
        )


def fit_spec(spec: ModelSpec, num_features: int, num_labels: int) -> ModelSpec:
    """A copy with the sizes of the data and all open settings chosen."""
    fitted = load_spec(spec)
    for table in fitted.tables:
        if table.role == "embedding":
            extra = " features and a bias row" if table.bias_row else " features"
            _set_rows(table, num_features + int(table.bias_row), f"{num_features}{extra}")
        elif table.role == "head":
            _set_rows(table, num_labels, f"{num_labels} labels")
            # A kept model stays what it is when a later version chooses otherwise.
            table.head.CopyFrom(resolved_head(table))
    return fitted


def resolved_head(table: model_pb2.TableSpec) -> model_pb2.HeadSpec:
    """The settings of a head that shards use: with those chosen that the number of rows decides."""
    head, rows = model_pb2.HeadSpec(), table.base_rows or table.rows
    head.CopyFrom(table.head)
    hashing = head.hash
    if hashing.codes_per_table == 0:
        bits = int(hashing.bin_size).bit_length() - 1 if hashing.family == "dwta" else 1
        # Halves are rounded away from 0.
        exact = math.log2(max(rows, 1) / 320) / bits
        codes = int(math.copysign(math.floor(abs(exact) + 0.5), exact))
        hashing.codes_per_table = min(max(codes, max(1, 4 // bits)), max(1, 16 // bits))
    if hashing.num_tables == 0:
        hashing.num_tables = 12
    if hashing.rebuild_every_steps == 0:
        hashing.rebuild_every_steps = 50 * max(1, rows // 1_000_000)
    if head.recall_every_steps == 0:
        head.recall_every_steps = 20 * (1 + rows // 100_000)
    return head


def default_spec(num_labels: int) -> ModelSpec:
    """The model that `dslide train` takes when it is given none."""
    head: dict[str, Any] = {"name": "labels", "role": "head", "dim": 128}
    if num_labels <= 4096:
        head["head"] = {"max_active": 0}
    return load_spec(
        {
            "name": "model",
            "tables": [{"name": "input", "role": "embedding", "dim": 128, "bias_row": True}, head],
            "activations": "bf16",
        }
    )
