"""Messages of many rows, as bytes: numbers are copied once, where generated code does it thrice.

What is on the wire is ordinary protobuf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dslide import _fields, arrays
from dslide.v1 import common_pb2, shard_pb2

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Block:
    """ids uint32 [n], values float32 [n, dim], biases float32 [n] or [0]."""

    ids: npt.NDArray[np.uint32]
    values: F32
    biases: F32


def read_rows(message: bytes) -> Block:
    """The rows of a GatherResponse, as views of its bytes where they are f32."""
    row_ids: Any = b""
    biases: Any = b""
    data: Any = b""
    shape = {1: 0, 2: 0, 3: common_pb2.ELEMENT_TYPE_F32}  # rows, columns, type
    for number, value in _fields.read(message):
        if number != shard_pb2.GatherResponse.ROWS_FIELD_NUMBER or isinstance(value, int):
            continue
        for inner, field in _fields.read(value):
            if inner == common_pb2.RowBlock.ROW_IDS_FIELD_NUMBER:
                row_ids = field
            elif inner == common_pb2.RowBlock.BIASES_FIELD_NUMBER:
                biases = field
            elif inner == common_pb2.RowBlock.VALUES_FIELD_NUMBER and not isinstance(field, int):
                for place, entry in _fields.read(field):
                    if isinstance(entry, int):
                        shape[place] = entry
                    elif place == common_pb2.Matrix.DATA_FIELD_NUMBER:
                        data = entry
    values = (
        arrays.floats(data)
        if shape[3] == common_pb2.ELEMENT_TYPE_F32
        else arrays.from_bf16(np.frombuffer(data, dtype="<u2"))
    )
    return Block(arrays.ids(row_ids), values.reshape(shape[1], shape[2]), arrays.floats(biases))


def scatter_message(
    request: shard_pb2.ScatterRequest, ids: npt.NDArray[np.int64], values: F32, biases: F32 | None
) -> bytes:
    """A ScatterRequest with these rows; `request` has all other fields."""
    shape = common_pb2.Matrix(
        rows=values.shape[0], cols=values.shape[1], element_type=common_pb2.ELEMENT_TYPE_F32
    ).SerializeToString()
    data = np.ascontiguousarray(values, dtype="<f4").data.cast("B")
    row_ids = ids.astype("<u4").tobytes()
    extra = b"" if biases is None else biases.astype("<f4").tobytes()
    before_data = _fields.head(common_pb2.Matrix.DATA_FIELD_NUMBER, len(data))
    block: list[bytes | memoryview] = [
        _fields.head(common_pb2.RowBlock.ROW_IDS_FIELD_NUMBER, len(row_ids)),
        row_ids,
        _fields.head(
            common_pb2.RowBlock.VALUES_FIELD_NUMBER, len(shape) + len(before_data) + len(data)
        ),
        shape,
        before_data,
        data,
        _fields.head(common_pb2.RowBlock.BIASES_FIELD_NUMBER, len(extra)),
        extra,
    ]
    size = sum(len(part) for part in block)
    rows = _fields.head(shard_pb2.ScatterRequest.ROWS_FIELD_NUMBER, size)
    return b"".join([request.SerializeToString(), rows, *block])
