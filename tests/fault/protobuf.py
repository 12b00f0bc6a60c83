"""Protobuf's wire format by hand: enough to talk to the servers without generated code.

Encoding leaves out default values, as proto3 does. Decoding gives {field number: [raw values]},
in the order of arrival: int for varint and fixed fields, bytes for length-delimited ones.
"""

import struct

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """Bytes that are no protobuf message."""


def varint(value):
    if value < 0:
        value += 1 << 64  # int32 and int64: two's complement in 64 bits
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def uint(number, value):
    """A field of any integer or enum type that is not zigzag or fixed."""
    return varint(number << 3 | _VARINT) + varint(value) if value else b""


def zero(number):
    """A 0 where an absent field has another default."""
    return varint(number << 3 | _VARINT) + varint(0)


def double(number, value):
    return varint(number << 3 | _FIXED64) + struct.pack("<d", value) if value else b""


def data(number, value):
    """A bytes or string field."""
    value = value.encode() if isinstance(value, str) else value
    return message(number, value) if value else b""


def message(number, encoded):
    """An embedded message: present even when it is empty."""
    return varint(number << 3 | _BYTES) + varint(len(encoded)) + encoded


def _read_varint(encoded, at):
    value = shift = 0
    while True:
        if at >= len(encoded) or shift > 63:
            raise ProtobufError(f"a number is cut or too long at byte {at}")
        byte = encoded[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return value, at


def decode(encoded):
    fields, at = {}, 0
    while at < len(encoded):
        tag, at = _read_varint(encoded, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _read_varint(encoded, at)
        else:
            if kind == _BYTES:
                length, at = _read_varint(encoded, at)
            elif kind in (_FIXED64, _FIXED32):
                length = 8 if kind == _FIXED64 else 4
            else:
                raise ProtobufError(f"wire type {kind} at byte {at}")
            value = encoded[at:at + length]
            at += length
            if at > len(encoded):
                raise ProtobufError(f"field {tag >> 3} is cut")
            if kind != _BYTES:
                value = int.from_bytes(value, "little")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def last(fields, number, default=0):
    """The value that counts of a field that is not repeated."""
    return fields.get(number, [default])[-1]


def text(fields, number):
    return last(fields, number, b"").decode(errors="replace")


def signed(value):
    """An int32 or int64 of its varint."""
    return value - (1 << 64) if value >> 63 else value
