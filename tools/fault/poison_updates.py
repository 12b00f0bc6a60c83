"""Updates that no shard may apply, and good ones: each a pure function of its random source.

EXPECTED has for each kind of poison a function (source, envelope) -> request, a ScatterRequest, a
StepRequest or the bytes of a spoilt ScatterRequest, and the words that a shard may refuse it with.
HARMLESS kinds are numbers that a shard may well take, and that must leave every row as it is.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import shard_client
from dslide.v1.common_pb2 import RequestEnvelope, RowBlock
from dslide.v1.shard_pb2 import (
    SCATTER_MODE_ADD,
    SCATTER_MODE_ASSIGN,
    SCATTER_MODE_GRADIENT,
    EmbedBackward,
    EmbedForward,
    ScatterRequest,
    StepRequest,
)
from shard_client import floats, ids, matrix, model_spec, table_spec

DIM, ROWS = 16, 256
# Rows whose optimizer has a state, and rows that are only added to.
LEARNT = table_spec("learnt", ROWS, DIM, init="uniform", optimizer="adam")
SUMS = table_spec("sums", ROWS, DIM, init="uniform")
# A model has one table of this kind: each is of a model of its own name.
MODELS = tuple(model_spec(table.name, table) for table in (LEARNT, SUMS))
# The last row of SUMS holds a number from which one more of its size is beyond the bound.
BRINK_ROW, BRINK = ROWS - 1, 0.9 * shard_client.MAGNITUDE_BOUND

Make = Callable[[random.Random, RequestEnvelope], ScatterRequest | StepRequest | bytes]
Draw = Callable[[random.Random], Any]  # a function of the source


def f32(bits: int) -> bytes:
    return struct.pack("<I", bits)


def good_rows(source: random.Random) -> RowBlock:
    chosen = sorted(source.sample(range(ROWS - 1), 4))
    values = [[source.uniform(-1, 1) for _ in range(DIM)] for _ in chosen]
    return RowBlock(row_ids=ids(chosen), values=matrix(values, DIM))


def scatter(envelope: RequestEnvelope, block: RowBlock, table: str = LEARNT.name,
            mode: int = SCATTER_MODE_GRADIENT, total: int | None = None,
            model: str | None = None) -> ScatterRequest:
    request = ScatterRequest(
        envelope=envelope, table=table, rows=block,
        total_rows=len(block.row_ids) // 4 if total is None else total)
    request.mode = mode  # type: ignore[assignment]  # also one that there is not
    request.envelope.model = model or table
    return request


def good_gradient(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    return scatter(envelope, good_rows(source))


def good_add(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    return scatter(envelope, good_rows(source), SUMS.name, SCATTER_MODE_ADD)


GOOD = (good_gradient, good_add)


def brink(envelope: RequestEnvelope) -> ScatterRequest:
    """The update that both runs begin with."""
    block = RowBlock(row_ids=ids([BRINK_ROW]), values=matrix([[BRINK] * DIM], DIM))
    return scatter(envelope, block, SUMS.name, SCATTER_MODE_ASSIGN)


# --- ways to spoil a good update -----------------------------------------------------------------


def one_number(draw: Draw) -> Make:
    """One of its numbers, anywhere, is what is drawn (4 bytes)."""

    def make(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
        block = good_rows(source)
        values, number = bytearray(block.values.data), draw(source)
        at = 4 * source.randrange(len(values) // 4)
        values[at:at + 4] = number
        block.values.data = bytes(values)
        table, mode = source.choice((
            (LEARNT.name, SCATTER_MODE_GRADIENT), (LEARNT.name, SCATTER_MODE_ASSIGN),
            (SUMS.name, SCATTER_MODE_ADD), (SUMS.name, SCATTER_MODE_ASSIGN)))
        return scatter(envelope, block, table, mode)

    return make


def all_numbers(draw: Draw) -> Make:
    """All of its numbers are such, in an addition."""

    def make(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
        block = good_rows(source)
        block.values.data = b"".join(draw(source) for _ in range(len(block.values.data) // 4))
        return scatter(envelope, block, SUMS.name, SCATTER_MODE_ADD)

    return make


def rows(change: Callable[[random.Random, list[int]], Sequence[int]]) -> Make:
    """Its rows are others."""

    def make(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
        block = good_rows(source)
        chosen = list(struct.unpack(f"<{len(block.row_ids) // 4}I", block.row_ids))
        block.row_ids = ids(change(source, chosen))
        return scatter(envelope, block)

    return make


def values(change: Callable[[random.Random, Any], dict[str, Any]]) -> Make:
    """Its matrix has other fields."""

    def make(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
        block = good_rows(source)
        for name, value in change(source, block.values).items():
            setattr(block.values, name, value)
        return scatter(envelope, block)

    return make


def request(draw: Callable[[random.Random], dict[str, Any]]) -> Make:
    """Other arguments of scatter()."""
    return lambda source, envelope: scatter(envelope, good_rows(source), **draw(source))


def _wrong_dim(source: random.Random, found: Any) -> dict[str, Any]:
    cols = source.choice((DIM - 1, DIM + 1, 1, 65536))
    return {"cols": cols, "data": floats([0.5] * (min(cols, 32) * found.rows))}


def _twice(source: random.Random, chosen: list[int]) -> list[int]:
    at = source.randrange(1, len(chosen))
    return [*chosen[:at], chosen[at - 1], *chosen[at + 1:]]


def _stray_biases(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    block = good_rows(source)
    block.biases = floats([1.0] * block.values.rows)
    return scatter(envelope, block)


def _cut_message(source: random.Random, envelope: RequestEnvelope) -> bytes:
    """Ends within the values: the lengths before it say so."""
    return good_gradient(source, envelope).SerializeToString()[:-source.randrange(4, 200)]


def _over_the_brink(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    """Finite, and its sum with what is there is not to be stored."""
    more = matrix([[source.uniform(0.5, 1) * BRINK] * DIM], DIM)
    return scatter(envelope, RowBlock(row_ids=ids([BRINK_ROW]), values=more), SUMS.name,
                   SCATTER_MODE_ADD)


def forward(draw: Callable[[random.Random], dict[str, Any]]) -> Make:
    """The beginning of a step, with other values or offsets."""

    def make(source: random.Random, envelope: RequestEnvelope) -> StepRequest:
        envelope.model = LEARNT.name
        fields = {"sample_offsets": ids((0, 4)), "values": floats([1.0] * 4)} | draw(source)
        return StepRequest(envelope=envelope, step=1, embed_forward=EmbedForward(
            table=LEARNT.name, batch=1, row_ids=ids(sorted(source.sample(range(ROWS), 4))),
            **fields))

    return make


def backward(draw: Callable[[random.Random], tuple[int, float]]) -> Make:
    """The end of a step: (its number, the number that its gradient is made of)."""

    def make(source: random.Random, envelope: RequestEnvelope) -> StepRequest:
        envelope.model = LEARNT.name
        step, number = draw(source)
        return StepRequest(envelope=envelope, step=step, embed_backward=EmbedBackward(
            table=LEARNT.name, gradient=matrix([[number] * DIM], DIM)))

    return make


_NUMBERS = ("NOT_FINITE", "OVER_MAGNITUDE")
_SHAPES = ("BAD_SIZE", "BAD_OFFSETS", "WRONG_DIM", "OVER_LIMIT", "OUT_OF_RANGE", "WRONG_ROWS",
           "BAD_MESSAGE", "INCOMPLETE")
EXPECTED: dict[str, tuple[Make, tuple[str, ...]]] = {
    # Quiet and signalling, of either sign, with any payload.
    "nan": (one_number(lambda source: f32(
        source.getrandbits(1) << 31 | 0x7F800000 | source.randrange(1, 1 << 23))), ("NOT_FINITE",)),
    "infinity": (one_number(lambda source: f32(source.choice((0x7F800000, 0xFF800000)))),
                 ("NOT_FINITE",)),
    "huge": (one_number(lambda source: floats([source.choice((3e38, -3e38, 1.01e30, -1.01e30))])),
             _NUMBERS),
    "index_beyond": (rows(lambda source, chosen: [
        *chosen[:-1], source.choice((ROWS, ROWS + 1, 1 << 20, 1 << 31, (1 << 32) - 1))]),
        ("BAD_ROW_ID", "FOREIGN_ROW")),
    "index_twice": (rows(_twice), ("NOT_ASCENDING",)),
    "index_unsorted": (rows(lambda _, chosen: chosen[::-1]), ("NOT_ASCENDING",)),
    "wrong_dim": (values(_wrong_dim), _SHAPES),
    "wrong_count": (values(lambda source, found: {
        "rows": found.rows + source.choice((-1, 1, 1000, 1 << 31))}), _SHAPES),
    "cut_values": (values(lambda source, found: {
        "data": found.data[:-source.randrange(1, len(found.data))]}), _SHAPES),
    "more_values": (values(lambda source, found: {
        "data": found.data + bytes(source.randrange(1, 65))}), _SHAPES),
    "wrong_type": (values(lambda source, _: {"element_type": source.choice((0, 77))}),
                   ("BAD_ENUM",)),
    "stray_biases": (_stray_biases, (*_SHAPES, "WRONG_BIASES")),
    "no_table": (request(lambda _: {"table": "no-such-table", "model": LEARNT.name}),
                 ("UNKNOWN_TABLE",)),
    "wrong_mode": (request(lambda source: {"mode": source.choice((0, 99))}), ("BAD_ENUM",)),
    "wrong_total": (request(lambda source: {"total": source.choice((1, 3, 5, 1 << 20))}), _SHAPES),
    "cut_message": (_cut_message, _SHAPES),
    "step_values": (forward(lambda source: {"values": floats([1.0]) + f32(source.choice(
        (0x7FC00001, 0x7F800000, 0xFF800000))) + floats([1.0] * 2)}), _NUMBERS),
    "step_offsets": (forward(lambda source: {"sample_offsets": ids(source.choice(
        ((0, 5), (1, 4), (0, 3), (0, 4, 4), (4, 0), (0, 1 << 31))))}), _SHAPES),
    "step_without_forward": (backward(lambda source: (source.randrange(1, 1 << 40), 0.5)),
                             ("NO_CONTEXT",)),
    "step_gradient": (backward(lambda source: (
        1, source.choice((math.nan, math.inf, -math.inf, 3e38)))), (*_NUMBERS, "NO_CONTEXT"))}
HARMLESS: dict[str, Make] = {
    "minus_zero": all_numbers(lambda _: f32(0x80000000)),
    "denormal": all_numbers(
        lambda source: f32(source.getrandbits(1) << 31 | source.randrange(1, 1 << 23))),
    "over_the_brink": _over_the_brink}
KINDS: dict[str, Make] = {name: make for name, (make, _) in EXPECTED.items()} | HARMLESS
