"""Updates that no shard may apply, and good ones: each a pure function of its random source.

A kind of poison is a function (source, envelope) -> request: a ScatterRequest, a StepRequest, or
the bytes of a spoilt ScatterRequest. EXPECTED names for each kind the words that a shard may refuse
it with. HARMLESS kinds are numbers that a shard may well take, and that must leave every row as it
is.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence

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


def f32(bits: int) -> bytes:
    return struct.pack("<I", bits)


def good_rows(source: random.Random, rows: int = 4) -> RowBlock:
    chosen = sorted(source.sample(range(ROWS - 1), rows))
    values = [[source.uniform(-1, 1) for _ in range(DIM)] for _ in range(rows)]
    return RowBlock(row_ids=ids(chosen), values=matrix(values, DIM))


def row_ids(block: RowBlock) -> list[int]:
    return list(struct.unpack(f"<{len(block.row_ids) // 4}I", block.row_ids))


def scatter(envelope: RequestEnvelope, block: RowBlock, table: str = LEARNT.name,
            mode: int = SCATTER_MODE_GRADIENT, total: int | None = None,
            model: str | None = None) -> ScatterRequest:
    request = ScatterRequest(
        envelope=envelope, table=table, rows=block,
        total_rows=len(block.row_ids) // 4 if total is None else total)
    request.mode = mode  # type: ignore[assignment]  # also one that there is not
    request.envelope.model = model or table
    return request


# --- good ----------------------------------------------------------------------------------------


def good_gradient(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    return scatter(envelope, good_rows(source))


def good_add(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    return scatter(envelope, good_rows(source), SUMS.name, SCATTER_MODE_ADD)


GOOD = (good_gradient, good_add)


def brink(envelope: RequestEnvelope) -> ScatterRequest:
    """The update that both runs begin with."""
    block = RowBlock(row_ids=ids([BRINK_ROW]), values=matrix([[BRINK] * DIM], DIM))
    return scatter(envelope, block, SUMS.name, SCATTER_MODE_ASSIGN)


# --- numbers -------------------------------------------------------------------------------------


def _with_number(source: random.Random, envelope: RequestEnvelope, number: bytes) -> ScatterRequest:
    """One number of a good update, anywhere, is `number` (4 bytes)."""
    block = good_rows(source)
    values = bytearray(block.values.data)
    at = 4 * source.randrange(len(values) // 4)
    values[at:at + 4] = number
    block.values.data = bytes(values)
    table, mode = source.choice((
        (LEARNT.name, SCATTER_MODE_GRADIENT), (LEARNT.name, SCATTER_MODE_ASSIGN),
        (SUMS.name, SCATTER_MODE_ADD), (SUMS.name, SCATTER_MODE_ASSIGN)))
    return scatter(envelope, block, table, mode)


def nan(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    """Quiet and signalling, of either sign, with any payload."""
    return _with_number(source, envelope, f32(
        source.getrandbits(1) << 31 | 0x7F800000 | source.randrange(1, 1 << 23)))


def infinity(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    return _with_number(source, envelope, f32(source.choice((0x7F800000, 0xFF800000))))


def huge(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    return _with_number(source, envelope,
                        floats([source.choice((3e38, -3e38, 1.01e30, -1.01e30))]))


def _all_of(source: random.Random, envelope: RequestEnvelope,
            number: Callable[[], bytes]) -> ScatterRequest:
    block = good_rows(source)
    block.values.data = b"".join(number() for _ in range(len(block.values.data) // 4))
    return scatter(envelope, block, SUMS.name, SCATTER_MODE_ADD)


def minus_zero(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    return _all_of(source, envelope, lambda: f32(0x80000000))


def denormal(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    return _all_of(source, envelope, lambda: f32(
        source.getrandbits(1) << 31 | source.randrange(1, 1 << 23)))


def over_the_brink(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    """Finite, and its sum with what is there is not to be stored."""
    block = RowBlock(row_ids=ids([BRINK_ROW]),
                     values=matrix([[source.uniform(0.5, 1) * BRINK] * DIM], DIM))
    return scatter(envelope, block, SUMS.name, SCATTER_MODE_ADD)


# --- indices and shapes --------------------------------------------------------------------------


def index_beyond(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    block = good_rows(source)
    beyond = source.choice((ROWS, ROWS + 1, 1 << 20, 1 << 31, (1 << 32) - 1))
    block.row_ids = ids([*row_ids(block)[:-1], beyond])
    return scatter(envelope, block)


def index_twice(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    block = good_rows(source)
    rows = row_ids(block)
    at = source.randrange(1, len(rows))
    rows[at] = rows[at - 1]
    block.row_ids = ids(rows)
    return scatter(envelope, block)


def index_unsorted(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    block = good_rows(source)
    block.row_ids = ids(row_ids(block)[::-1])
    return scatter(envelope, block)


def wrong_dim(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    block = good_rows(source)
    block.values.cols = source.choice((DIM - 1, DIM + 1, 1, 65536))
    block.values.data = floats([0.5] * (min(block.values.cols, 32) * block.values.rows))
    return scatter(envelope, block)


def wrong_count(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    block = good_rows(source)
    block.values.rows += source.choice((-1, 1, 1000, 1 << 31))
    return scatter(envelope, block)


def cut_values(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    block = good_rows(source)
    block.values.data = block.values.data[:-source.randrange(1, len(block.values.data))]
    return scatter(envelope, block)


def more_values(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    block = good_rows(source)
    block.values.data += bytes(source.randrange(1, 65))
    return scatter(envelope, block)


def stray_biases(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    block = good_rows(source)
    block.biases = floats([1.0] * block.values.rows)
    return scatter(envelope, block)


def wrong_type(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    block = good_rows(source)
    block.values.element_type = source.choice((0, 77))  # type: ignore[assignment]
    return scatter(envelope, block)


def no_table(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    return scatter(envelope, good_rows(source), "no-such-table", model=LEARNT.name)


def wrong_mode(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    return scatter(envelope, good_rows(source), mode=source.choice((0, 99)))


def wrong_total(source: random.Random, envelope: RequestEnvelope) -> ScatterRequest:
    return scatter(envelope, good_rows(source), total=source.choice((1, 3, 5, 1 << 20)))


def cut_message(source: random.Random, envelope: RequestEnvelope) -> bytes:
    """Ends within the values: the lengths before it say so."""
    whole = scatter(envelope, good_rows(source)).SerializeToString()
    return whole[:-source.randrange(4, 200)]


# --- steps ---------------------------------------------------------------------------------------


def _forward(source: random.Random, envelope: RequestEnvelope, values: bytes,
             offsets: Sequence[int] = (0, 4)) -> StepRequest:
    envelope.model = LEARNT.name
    return StepRequest(envelope=envelope, step=1, embed_forward=EmbedForward(
        table=LEARNT.name, batch=1, sample_offsets=ids(offsets), values=values,
        row_ids=ids(sorted(source.sample(range(ROWS), 4)))))


def _backward(envelope: RequestEnvelope, step: int, number: float) -> StepRequest:
    envelope.model = LEARNT.name
    return StepRequest(envelope=envelope, step=step, embed_backward=EmbedBackward(
        table=LEARNT.name, gradient=matrix([[number] * DIM], DIM)))


def step_values(source: random.Random, envelope: RequestEnvelope) -> StepRequest:
    spoilt = source.choice((f32(0x7FC00001), f32(0x7F800000), f32(0xFF800000)))
    return _forward(source, envelope, floats([1.0]) + spoilt + floats([1.0] * 2))


def step_offsets(source: random.Random, envelope: RequestEnvelope) -> StepRequest:
    offsets = source.choice(((0, 5), (1, 4), (0, 3), (0, 4, 4), (4, 0), (0, 1 << 31)))
    return _forward(source, envelope, floats([1.0] * 4), offsets)


def step_without_forward(source: random.Random, envelope: RequestEnvelope) -> StepRequest:
    return _backward(envelope, source.randrange(1, 1 << 40), 0.5)


def step_gradient(source: random.Random, envelope: RequestEnvelope) -> StepRequest:
    return _backward(envelope, 1, source.choice((math.nan, math.inf, -math.inf, 3e38)))


_NUMBERS = ("NOT_FINITE", "OVER_MAGNITUDE")
_SHAPES = ("BAD_SIZE", "BAD_OFFSETS", "WRONG_DIM", "OVER_LIMIT", "OUT_OF_RANGE", "WRONG_ROWS",
           "BAD_MESSAGE", "INCOMPLETE")
Kind = Callable[[random.Random, RequestEnvelope], ScatterRequest | StepRequest | bytes]
EXPECTED: dict[Kind, tuple[str, ...]] = {
    nan: ("NOT_FINITE",), infinity: ("NOT_FINITE",), huge: _NUMBERS,
    index_beyond: ("BAD_ROW_ID", "FOREIGN_ROW"), index_twice: ("NOT_ASCENDING",),
    index_unsorted: ("NOT_ASCENDING",), wrong_dim: _SHAPES, wrong_count: _SHAPES,
    cut_values: _SHAPES, more_values: _SHAPES, stray_biases: (*_SHAPES, "WRONG_BIASES"),
    wrong_type: ("BAD_ENUM",), no_table: ("UNKNOWN_TABLE",), wrong_mode: ("BAD_ENUM",),
    wrong_total: _SHAPES, cut_message: _SHAPES, step_values: _NUMBERS, step_offsets: _SHAPES,
    step_without_forward: ("NO_CONTEXT",), step_gradient: (*_NUMBERS, "NO_CONTEXT")}
HARMLESS: tuple[Kind, ...] = (minus_zero, denormal, over_the_brink)
KINDS: tuple[Kind, ...] = (*EXPECTED, *HARMLESS)
