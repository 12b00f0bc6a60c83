"""Protobuf messages field by field, without copies of what they hold.

Generated code copies the bytes of every field. Here the rows of an answer stay where gRPC has put
them, and error details need no package of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("the message ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def read(message: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message in order: (number, integer or view of the bytes).

    Fixed-width fields are views of their 4 or 8 bytes. Raises ValueError for what is no message.
    """
    data = memoryview(message)
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED_32, _FIXED_64):
            size = 4 if kind == _FIXED_32 else 8
        else:
            raise ValueError(
                f"field {number} has wire type {kind}, which this version does not know"
            )
        if at + size > len(data):
            raise ValueError(f"field {number} has {size} bytes, {len(data) - at} are there")
        yield number, data[at : at + size]
        at += size


def head(number: int, size: int) -> bytes:
    """What stands before the `size` bytes of a field."""
    out = bytearray()
    for value in (number << 3 | _BYTES, size):
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out)
