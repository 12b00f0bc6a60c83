"""Arrays as they travel: little-endian bytes, bf16, packed ids.

docs/understand/wire.md, "Arrays", defines them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dslide.v1 import common_pb2

F32 = npt.NDArray[np.float32]
U32 = npt.NDArray[np.uint32]
Bytes = bytes | memoryview


def to_bf16(x: F32) -> npt.NDArray[np.uint16]:
    """The upper halves of float32 numbers, rounded to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(
        16
    )
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_nan, (bits >> np.uint32(16)) | np.uint32(0x40), rounded).astype(np.uint16)


def from_bf16(halves: npt.NDArray[np.uint16]) -> F32:
    """Exact."""
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)


def floats(data: Bytes) -> F32:
    """A view of received f32 numbers; read-only."""
    return np.frombuffer(data, dtype="<f4")


def ids(data: Bytes) -> U32:
    """A view of received u32 numbers; read-only."""
    return np.frombuffer(data, dtype="<u4")


def matrix(x: F32, *, bf16: bool = False, sparse: bool = False) -> common_pb2.Matrix:
    """The message of a float32 array, [rows, cols].

    bf16: rounded to that. sparse: without zeros where that is shorter, for shards that say
    "sparse-matrices".
    """
    message = common_pb2.Matrix(
        rows=x.shape[0],
        cols=x.shape[1],
        element_type=common_pb2.ELEMENT_TYPE_BF16 if bf16 else common_pb2.ELEMENT_TYPE_F32,
    )
    numbers = x
    if sparse:
        # By their bits: a -0 stays.
        is_there = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32) != 0
        bits = np.packbits(is_there, axis=1, bitorder="little")
        size = 2 if bf16 else 4
        if bits.size + size * np.count_nonzero(is_there) < size * x.size:
            numbers = x[is_there]
            message.present = bits.tobytes()
    data = to_bf16(numbers).astype("<u2") if bf16 else numbers.astype("<f4", copy=False)
    message.data = data.tobytes()
    return message


def from_matrix(message: common_pb2.Matrix) -> F32:
    """The numbers of a received matrix, float32 [rows, cols]; read-only where it came as f32."""
    if message.element_type == common_pb2.ELEMENT_TYPE_BF16:
        numbers = from_bf16(np.frombuffer(message.data, dtype="<u2"))
    else:
        numbers = floats(message.data)
    if not message.present:
        return numbers.reshape(message.rows, message.cols)
    bits = np.frombuffer(message.present, dtype=np.uint8).reshape(message.rows, -1)
    is_there = np.unpackbits(bits, axis=1, count=message.cols, bitorder="little").astype(bool)
    full = np.zeros(is_there.shape, dtype=np.float32)
    full[is_there] = numbers
    return full


def pack_ids(offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.integer]) -> bytes:
    """The ids of samples as base-128 varints.

    Parameters
    ----------
    offsets : int64 [B + 1], ascending from 0
    rows : uint32 [offsets[B]], strictly ascending within a sample

    Returns
    -------
    For each sample: the number of its ids, the first one, and for each further one its distance
    from the one before, less 1.
    """
    counts = np.diff(offsets)
    distances = np.empty(len(rows), dtype=np.int64)
    if len(rows):
        wide = rows.astype(np.int64)
        distances[0] = wide[0]
        np.subtract(wide[1:], wide[:-1] + 1, out=distances[1:])
        first = offsets[:-1][counts > 0]
        distances[first] = wide[first]
    numbers = np.insert(distances, offsets[:-1], counts).astype(np.uint64)
    sizes = np.ones(len(numbers), dtype=np.int64)
    for bits in (7, 14, 21, 28):
        sizes += numbers >= np.uint64(1 << bits)
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    starts = ends - sizes
    for k in range(int(sizes.max(initial=0))):
        there = sizes > k
        more = np.where(sizes[there] > k + 1, 0x80, 0)
        digits = (numbers[there] >> np.uint64(7 * k)) & np.uint64(0x7F)
        out[starts[there] + k] = digits.astype(np.uint8) | more.astype(np.uint8)
    return out.tobytes()
