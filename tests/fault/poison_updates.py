"""Updates that no shard may apply, and good ones: each a pure function of its random source.

A kind of poison is a function (source, envelope) -> (call, messages): the method and the encoded
messages of one call. EXPECTED names for each kind the words that a shard may refuse it with.
HARMLESS kinds are numbers that a shard may well take, and that must leave every row as it is.
"""

import dataclasses
import math
import struct

import shard_client
from protobuf import data, message, uint
from shard_client import F32, INIT_UNIFORM, OPTIMIZER_ADAM, SCATTER_ADD, Model, Table

SCATTER, STEP = "/dslide.v1.ShardService/Scatter", "/dslide.v1.ShardService/Step"
SCATTER_GRADIENT, SCATTER_ASSIGN = 1, 3
DIM, ROWS = 16, 256
# Rows whose optimizer has a state, and rows that are only added to.
LEARNT = Table("learnt", ROWS, DIM, init=INIT_UNIFORM, optimizer=OPTIMIZER_ADAM)
SUMS = Table("sums", ROWS, DIM, init=INIT_UNIFORM)
# A model has one table of this kind: each is of a model of its own name.
MODELS = tuple(Model(table.name, (table,)) for table in (LEARNT, SUMS))
# The last row of SUMS holds a number from which one more of its size is beyond the bound.
BRINK_ROW, BRINK = ROWS - 1, 0.9 * shard_client.MAGNITUDE_BOUND


def f32(bits):
    return struct.pack("<I", bits)


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


@dataclasses.dataclass
class Block:
    """Rows of a scatter, still open to spoiling: `values` are bytes."""

    rows: list
    values: bytearray
    rows_said: int = None
    cols_said: int = DIM
    element_type: int = F32
    biases: bytes = b""

    def encode(self):
        matrix = (uint(1, len(self.rows) if self.rows_said is None else self.rows_said)
                  + uint(2, self.cols_said) + uint(3, self.element_type)
                  + data(4, bytes(self.values)))
        return (data(1, struct.pack(f"<{len(self.rows)}I", *self.rows)) + message(2, matrix)
                + data(3, self.biases))


def good_block(source, rows=4):
    chosen = sorted(source.sample(range(ROWS - 1), rows))
    return Block(chosen, bytearray(floats([source.uniform(-1, 1) for _ in range(rows * DIM)])))


def scatter(envelope, block, table=LEARNT.name, mode=SCATTER_GRADIENT, total=None, model=None):
    envelope = dataclasses.replace(envelope, model=model or table)
    return SCATTER, [message(1, envelope.encode()) + data(2, table) + uint(3, mode)
                     + message(4, block.encode())
                     + uint(5, len(block.rows) if total is None else total)]


# --- good ----------------------------------------------------------------------------------------


def good_gradient(source, envelope):
    return scatter(envelope, good_block(source))


def good_add(source, envelope):
    return scatter(envelope, good_block(source), SUMS.name, SCATTER_ADD)


GOOD = (good_gradient, good_add)


def brink(envelope):
    """The update that both runs begin with."""
    block = Block([BRINK_ROW], bytearray(floats([BRINK] * DIM)))
    return scatter(envelope, block, SUMS.name, SCATTER_ASSIGN)


# --- numbers -------------------------------------------------------------------------------------


def _with_number(source, envelope, number):
    """One number of a good update, anywhere, is `number` (4 bytes)."""
    block = good_block(source)
    at = 4 * source.randrange(len(block.values) // 4)
    block.values[at:at + 4] = number
    table, mode = source.choice(((LEARNT.name, SCATTER_GRADIENT), (LEARNT.name, SCATTER_ASSIGN),
                                 (SUMS.name, SCATTER_ADD), (SUMS.name, SCATTER_ASSIGN)))
    return scatter(envelope, block, table, mode)


def nan(source, envelope):
    """Quiet and signalling, of either sign, with any payload."""
    return _with_number(source, envelope, f32(
        source.getrandbits(1) << 31 | 0x7F800000 | source.randrange(1, 1 << 23)))


def infinity(source, envelope):
    return _with_number(source, envelope, f32(source.choice((0x7F800000, 0xFF800000))))


def huge(source, envelope):
    return _with_number(source, envelope,
                        floats([source.choice((3e38, -3e38, 1.01e30, -1.01e30))]))


def _all_of(source, envelope, number):
    block = good_block(source)
    for at in range(0, len(block.values), 4):
        block.values[at:at + 4] = number()
    return scatter(envelope, block, SUMS.name, SCATTER_ADD)


def minus_zero(source, envelope):
    return _all_of(source, envelope, lambda: f32(0x80000000))


def denormal(source, envelope):
    return _all_of(source, envelope, lambda: f32(
        source.getrandbits(1) << 31 | source.randrange(1, 1 << 23)))


def over_the_brink(source, envelope):
    """Finite, and its sum with what is there is not to be stored."""
    block = Block([BRINK_ROW], bytearray(floats([source.uniform(0.5, 1) * BRINK] * DIM)))
    return scatter(envelope, block, SUMS.name, SCATTER_ADD)


# --- indices and shapes --------------------------------------------------------------------------


def index_beyond(source, envelope):
    block = good_block(source)
    block.rows[-1] = source.choice((ROWS, ROWS + 1, 1 << 20, 1 << 31, (1 << 32) - 1))
    return scatter(envelope, block)


def index_twice(source, envelope):
    block = good_block(source)
    at = source.randrange(1, len(block.rows))
    block.rows[at] = block.rows[at - 1]
    return scatter(envelope, block)


def index_unsorted(source, envelope):
    block = good_block(source)
    block.rows.reverse()
    return scatter(envelope, block)


def wrong_dim(source, envelope):
    block = good_block(source)
    block.cols_said = source.choice((DIM - 1, DIM + 1, 1, 65536))
    block.values = bytearray(floats([0.5] * (min(block.cols_said, 32) * len(block.rows))))
    return scatter(envelope, block)


def wrong_count(source, envelope):
    block = good_block(source)
    block.rows_said = len(block.rows) + source.choice((-1, 1, 1000, 1 << 31))
    return scatter(envelope, block)


def cut_values(source, envelope):
    block = good_block(source)
    del block.values[-source.randrange(1, len(block.values)):]
    return scatter(envelope, block)


def more_values(source, envelope):
    block = good_block(source)
    block.values += bytes(source.randrange(1, 65))
    return scatter(envelope, block)


def stray_biases(source, envelope):
    block = good_block(source)
    block.biases = floats([1.0] * len(block.rows))
    return scatter(envelope, block)


def wrong_type(source, envelope):
    block = good_block(source)
    block.element_type = source.choice((0, 77))
    return scatter(envelope, block)


def no_table(source, envelope):
    return scatter(envelope, good_block(source), "no-such-table", model=LEARNT.name)


def wrong_mode(source, envelope):
    return scatter(envelope, good_block(source), mode=source.choice((0, 99)))


def wrong_total(source, envelope):
    return scatter(envelope, good_block(source), total=source.choice((1, 3, 5, 1 << 20)))


def cut_message(source, envelope):
    """Ends within the values: the lengths before it say so."""
    method, (whole,) = scatter(envelope, good_block(source))
    return method, [whole[:-source.randrange(4, 200)]]


# --- steps ---------------------------------------------------------------------------------------


def _step(envelope, step, operation):
    envelope = dataclasses.replace(envelope, model=LEARNT.name)
    return STEP, [message(1, envelope.encode()) + uint(2, step) + operation]


def _embed_forward(source, values, offsets=(0, 4)):
    return message(10, data(1, LEARNT.name) + uint(2, 1)
                   + data(3, struct.pack(f"<{len(offsets)}I", *offsets))
                   + data(4, struct.pack("<4I", *sorted(source.sample(range(ROWS), 4))))
                   + data(5, values))


def step_values(source, envelope):
    values = bytearray(floats([1.0] * 4))
    values[4:8] = source.choice((f32(0x7FC00001), f32(0x7F800000), f32(0xFF800000)))
    return _step(envelope, 1, _embed_forward(source, bytes(values)))


def step_offsets(source, envelope):
    offsets = source.choice(((0, 5), (1, 4), (0, 3), (0, 4, 4), (4, 0), (0, 1 << 31)))
    return _step(envelope, 1, _embed_forward(source, floats([1.0] * 4), offsets))


def step_without_forward(source, envelope):
    gradient = uint(1, 1) + uint(2, DIM) + uint(3, F32) + data(4, floats([0.5] * DIM))
    return _step(envelope, source.randrange(1, 1 << 40),
                 message(13, data(1, LEARNT.name) + message(2, gradient)))


def step_gradient(source, envelope):
    number = source.choice((math.nan, math.inf, -math.inf, 3e38))
    gradient = uint(1, 1) + uint(2, DIM) + uint(3, F32) + data(4, floats([number] * DIM))
    return _step(envelope, 1, message(13, data(1, LEARNT.name) + message(2, gradient)))


_NUMBERS = ("NOT_FINITE", "OVER_MAGNITUDE")
_SHAPES = ("BAD_SIZE", "BAD_OFFSETS", "WRONG_DIM", "OVER_LIMIT", "OUT_OF_RANGE", "WRONG_ROWS",
           "BAD_MESSAGE", "INCOMPLETE")
EXPECTED = {
    nan: ("NOT_FINITE",), infinity: ("NOT_FINITE",), huge: _NUMBERS,
    index_beyond: ("BAD_ROW_ID", "FOREIGN_ROW"), index_twice: ("NOT_ASCENDING",),
    index_unsorted: ("NOT_ASCENDING",), wrong_dim: _SHAPES, wrong_count: _SHAPES,
    cut_values: _SHAPES, more_values: _SHAPES, stray_biases: (*_SHAPES, "WRONG_BIASES"),
    wrong_type: ("BAD_ENUM",), no_table: ("UNKNOWN_TABLE",), wrong_mode: ("BAD_ENUM",),
    wrong_total: _SHAPES, cut_message: _SHAPES, step_values: _NUMBERS, step_offsets: _SHAPES,
    step_without_forward: ("NO_CONTEXT",), step_gradient: (*_NUMBERS, "NO_CONTEXT"),
}
HARMLESS = (minus_zero, denormal, over_the_brink)
KINDS = (*EXPECTED, *HARMLESS)
