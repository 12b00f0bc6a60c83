"""Model specs: from the JSON files of docs/models, with the defaults of the C++ programs."""

from __future__ import annotations

import copy
import difflib
import functools
import importlib.resources
import json
import math
import os
from typing import Any

from google.protobuf.message import Message

from dslide.errors import InvalidArgumentError, NotFoundError
from dslide.v1 import model_pb2

ModelSpec = model_pb2.ModelSpec
_ROLES = ("embedding", "dense", "head")


@functools.cache
def _defaults() -> dict[str, Any]:
    """A model with one table of each role and every default (a test compares it with C++)."""
    text = importlib.resources.files("dslide").joinpath("default_spec.json").read_text("utf-8")
    defaults: dict[str, Any] = json.loads(text)
    return defaults


def _merge(base: dict[str, Any], given: Any, path: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InvalidArgumentError(f"{path or 'the spec'} is {given!r}, must be an object")
    merged = copy.deepcopy(base)
    for name, value in given.items():
        where = f"{path}.{name}" if path else name
        if name not in base:
            near = difflib.get_close_matches(name, base, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it may have: {', '.join(base)}"
            raise InvalidArgumentError(f"{where} is not a field of a model spec; {hint}")
        if isinstance(base[name], dict):
            merged[name] = _merge(base[name], value, where)
        else:
            merged[name] = value
    return merged


def _enum_number(kind: Any, word: Any, path: str) -> int:
    # TABLE_ROLE_UNSPECIFIED: what stands before "UNSPECIFIED" is the prefix of every word.
    prefix = kind.values_by_number[0].name.removesuffix("UNSPECIFIED")
    value = kind.values_by_name.get(prefix + str(word).upper())
    if value is None or value.number == 0:
        words = [v.name.removeprefix(prefix).lower() for v in kind.values if v.number]
        raise InvalidArgumentError(f"{path} is {word!r}, must be one of {', '.join(words)}")
    return int(value.number)


def _fill(message: Message, fields: dict[str, Any], path: str) -> None:
    for name, value in fields.items():
        where = f"{path}.{name}" if path else name
        field = message.DESCRIPTOR.fields_by_name[name]
        if field.type == field.TYPE_MESSAGE:
            nested = getattr(message, name)
            if isinstance(value, dict):
                nested.SetInParent()
                _fill(nested, value, where)
                continue
            for i, element in enumerate(value):
                _fill(nested.add(), element, f"{where}[{i}]")
        elif field.type == field.TYPE_ENUM:
            setattr(message, name, _enum_number(field.enum_type, value, where))
        else:
            try:
                setattr(message, name, value)
            except (TypeError, ValueError) as error:
                raise InvalidArgumentError(f"{where} is {value!r}: {error}") from None


def load_spec(source: str | os.PathLike[str] | dict[str, Any] | ModelSpec) -> ModelSpec:
    """A model spec from the path of a JSON file, from its content, or a copy of a spec.

    Fields that are left out have the defaults of the command line; `docs/models` has examples.
    """
    if isinstance(source, ModelSpec):
        spec = ModelSpec()
        spec.CopyFrom(source)
        return spec
    given: Any = source
    if not isinstance(source, dict):
        try:
            with open(source, encoding="utf-8") as file:
                given = json.load(file)
        except FileNotFoundError:
            raise NotFoundError(f"there is no model spec {os.fspath(source)}") from None
        except ValueError as error:
            raise InvalidArgumentError(f"{os.fspath(source)} is no JSON: {error}") from None
    defaults = _defaults()
    tables = given.get("tables") if isinstance(given, dict) else None
    if not isinstance(tables, list) or not tables:
        raise InvalidArgumentError('the spec has no "tables": it needs an embedding and a head')
    fields = _merge({**defaults, "tables": []}, {**given, "tables": []}, "")
    by_role = {table["role"]: table for table in defaults["tables"]}
    for i, table in enumerate(tables):
        role = table.get("role", "embedding") if isinstance(table, dict) else None
        if role not in _ROLES:
            raise InvalidArgumentError(
                f"tables[{i}].role is {role!r}, must be one of {', '.join(_ROLES)}"
            )
        fields["tables"].append(_merge(by_role[role], table, f"tables[{i}]"))
    spec = ModelSpec()
    _fill(spec, fields, "")
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
        if table.role == model_pb2.TABLE_ROLE_EMBEDDING:
            extra = " features and a bias row" if table.bias_row else " features"
            _set_rows(table, num_features + int(table.bias_row), f"{num_features}{extra}")
        elif table.role == model_pb2.TABLE_ROLE_HEAD:
            _set_rows(table, num_labels, f"{num_labels} labels")
            # A kept model stays what it is when a later version chooses otherwise.
            table.head.CopyFrom(resolved_head(table))
    return fitted


def resolved_head(table: model_pb2.TableSpec) -> model_pb2.HeadSpec:
    """The settings of a head that shards use: with those chosen that the number of rows decides."""
    head, rows = model_pb2.HeadSpec(), table.rows
    head.CopyFrom(table.head)
    hashing = head.hash
    if hashing.codes_per_table == 0:
        bits = (
            int(hashing.bin_size).bit_length() - 1
            if hashing.family == model_pb2.HASH_FAMILY_DWTA
            else 1
        )
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
