"""The calls of a shard and of the coordinator that the fault tests need, over protos/dslide/v1.

Every function takes a grpc_client.Connection and returns a grpc_client.Reply or what it holds;
ConnectionLost passes through. Row arithmetic is that of core/partition with equal capacity weights:
shard = (row % num_slots) % num_shards.
"""

import dataclasses
import struct

from grpc_client import PATIENCE_SECONDS
from protobuf import data, decode, double, last, message, signed, text, uint, zero

_SHARD = "/dslide.v1.ShardService/"
_COORDINATOR = "/dslide.v1.CoordinatorService/"

ROLE_EMBEDDING, ROLE_HEAD = "embedding", "head"
TOP_K_EXACT = 1
INIT_ZERO, INIT_UNIFORM = "zero", "uniform"
OPTIMIZER_SGD, OPTIMIZER_ADAGRAD, OPTIMIZER_ADAM = "sgd", "adagrad", "adam"
F32 = 1
SCATTER_ADD = 2
MAGNITUDE_BOUND = 1e30
OPERATION_WAIT_SECONDS = 5  # for the end of one, at a time


class CallFailed(RuntimeError):
    """An answer that is an error where the caller needs a result."""

    def __init__(self, what, reply):
        super().__init__(f"{what}: {reply}")
        self.reply = reply


class OperationFailed(CallFailed):
    """An operation that has ended with an error."""


def _ok(what, reply):
    if not reply.ok:
        raise CallFailed(what, reply)
    return reply


def _result(what, reply):
    """The fields of the one message of a unary answer."""
    return decode(_ok(what, reply).messages[0])


def seconds(duration):
    """A google.protobuf.Duration, encoded, as a number."""
    fields = decode(duration)
    return last(fields, 1, 0) + last(fields, 2, 0) / 1e9


# --- models --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Table:
    """A table without bias and hashing, of rows that tests add to."""

    name: str
    rows: int
    dim: int
    num_slots: int = 64
    init: str = INIT_ZERO
    optimizer: str = OPTIMIZER_SGD
    role: str = ROLE_EMBEDDING

    def encode(self):
        init = message(7, data(1, self.init) + double(2, 0.5))
        optimizer = message(8, data(1, self.optimizer) + double(2, 0.01))
        # No limit of active rows, no tail, no samples of recall.
        head = message(10, zero(2) + zero(3) + zero(6)) if self.role == ROLE_HEAD else b""
        return (data(1, self.name) + data(2, self.role) + uint(3, self.rows)
                + uint(4, self.dim) + uint(6, self.num_slots) + init + optimizer + head)

    def rows_of_shard(self, shard, num_shards):
        return rows_of_shard(self, shard, num_shards)


def rows_of_shard(table, shard, num_shards):
    """The rows of a table that a shard holds, ascending."""
    return [row for row in range(table.rows) if row % table.num_slots % num_shards == shard]


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    tables: tuple
    seed: int = 1

    def encode(self):
        return (data(1, self.name) + uint(2, self.seed)
                + b"".join(message(3, table.encode()) for table in self.tables)
                + double(5, MAGNITUDE_BOUND))


def register_model(connection, model):
    """Creates the model on every shard of the coordinator's cluster."""
    return _result("RegisterModel", connection.unary(
        _COORDINATOR + "RegisterModel", message(1, model.encode())))


def create_model(connection, model, shard=0, num_shards=1):
    """Creates one shard's part on a shard without a coordinator."""
    slots = b""
    for num_slots in sorted({table.num_slots for table in model.tables}):
        owners = struct.pack(f"<{num_slots}H", *(slot % num_shards for slot in range(num_slots)))
        slots += message(3, uint(1, num_slots) + data(2, owners) + uint(3, num_shards))
    request = message(1, model.encode()) + uint(2, shard) + slots + uint(4, 1)
    return _result("CreateModel", connection.unary(_SHARD + "CreateModel", request))


def drop_model(connection, model):
    return connection.unary(_SHARD + "DropModel", data(1, model))


@dataclasses.dataclass(frozen=True)
class TableState:
    """A shard's part of a table; rows, dim and num_slots are those of the whole table."""

    name: str
    rows: int
    dim: int
    num_slots: int
    shard_rows: int
    applied_steps: int
    digest: int

    def rows_of_shard(self, shard, num_shards):
        return rows_of_shard(self, shard, num_shards)


def describe_model(connection, model):
    """{table name: TableState} of one shard, digests included."""
    fields = _result("DescribeModel", connection.unary(
        _SHARD + "DescribeModel", data(1, model) + uint(2, 1)))
    specs = {text(spec, 1): spec
             for spec in map(decode, decode(last(fields, 1, b"")).get(3, []))}
    states = {}
    for table in map(decode, fields.get(2, [])):
        name = text(table, 1)
        spec = specs[name]
        states[name] = TableState(name, last(spec, 3), last(spec, 4), last(spec, 6), last(table, 2),
                                  last(table, 3), last(table, 5))
    return states


@dataclasses.dataclass(frozen=True)
class ShardPlace:
    shard: int
    address: str
    generation: int


def cluster_map(connection):
    """The shards of the coordinator's cluster by ordinal; CallFailed until all are there."""
    fields = _result("GetClusterMap", connection.unary(
        _COORDINATOR + "GetClusterMap", b""))
    return [ShardPlace(last(shard, 1), text(shard, 2), last(shard, 4))
            for shard in map(decode, fields.get(2, []))]


def cluster_restore_count(connection):
    """How often the cluster was taken back; CallFailed while it is, or not all shards are there."""
    return last(_result("GetClusterMap", connection.unary(
        _COORDINATOR + "GetClusterMap", b"")), 3)


def model_names(connection):
    """Of the models that the coordinator knows."""
    models = _result("ListModels", connection.unary(_COORDINATOR + "ListModels", b""))
    return sorted(text(decode(model), 1) for model in models.get(1, []))


def job_samples(connection, job):
    """Points that a job has trained over all of its epochs; 0 when the coordinator has no such."""
    status = _result("GetClusterStatus", connection.unary(
        _COORDINATOR + "GetClusterStatus", b""))
    for found in map(decode, status.get(7, [])):
        if text(found, 1) == job:
            return last(found, 3) * last(found, 6) + last(found, 5)
    return 0


def catalog(connection):
    """What a coordinator remembers of its cluster, comparable: models, shards, topology."""
    models = _result("ListModels", connection.unary(_COORDINATOR + "ListModels", b""))
    status = _result("GetClusterStatus", connection.unary(
        _COORDINATOR + "GetClusterStatus", b""))
    shards = [(last(shard, 1), text(shard, 2), last(shard, 3), last(shard, 4))
              for shard in map(decode, status.get(5, []))]
    return {"models": sorted(models.get(1, [])), "topology_version": last(status, 3),
            "expected_shards": last(status, 4), "shards": shards}


# --- rows ----------------------------------------------------------------------------------------


def _row_block(row_ids, values, dim, biases):
    """`values`: len(row_ids) * dim floats, row-major. biases: whether rows have one each; then 0."""
    matrix = (uint(1, len(row_ids)) + uint(2, dim) + uint(3, F32)
              + data(4, struct.pack(f"<{len(values)}f", *values)))
    return (data(1, struct.pack(f"<{len(row_ids)}I", *row_ids)) + message(2, matrix)
            + data(3, bytes(4 * len(row_ids)) if biases else b""))


@dataclasses.dataclass(frozen=True)
class Envelope:
    job: str
    client_id: bytes
    sequence: int
    first_incomplete: int
    generation: int
    model: str

    def encode(self):
        return (data(1, self.job) + data(2, self.client_id) + uint(3, self.sequence)
                + uint(4, self.first_incomplete) + uint(5, self.generation) + data(7, self.model))


def scatter_add(connection, envelope, table, rows, timeout=PATIENCE_SECONDS, biases=False):
    """Adds to rows: {row id: [dim floats]}. The Reply; see scatter_answer()."""
    row_ids = sorted(rows)
    values = [value for row in row_ids for value in rows[row]]
    request = (message(1, envelope.encode()) + data(2, table.name) + uint(3, SCATTER_ADD)
               + message(4, _row_block(row_ids, values, table.dim, biases))
               + uint(5, len(row_ids)))
    return connection.call(_SHARD + "Scatter", [request], timeout)


def scatter_answer(reply):
    """(generation, applied_steps) of a scatter that was applied."""
    fields = decode(_ok("Scatter", reply).messages[0])
    return last(fields, 1), signed(last(fields, 2))


def top_k_request(model, table, queries, k):
    """The encoded request for the best k rows of each query; queries: lists of dim floats."""
    values = [value for query in queries for value in query]
    matrix = (uint(1, len(queries)) + uint(2, table.dim) + uint(3, F32)
              + data(4, struct.pack(f"<{len(values)}f", *values)))
    return (data(1, model) + data(2, table.name) + message(3, matrix) + uint(4, k)
            + uint(5, TOP_K_EXACT))


def gather_bytes(connection, model, table, row_ids):
    """(weights, biases) of the rows in ascending order of their ids: f32 bytes, row-major."""
    request = (data(1, model) + data(2, table)
               + message(3, data(1, struct.pack(f"<{len(row_ids)}I", *row_ids))))
    reply = _ok("Gather", connection.call(_SHARD + "Gather", [request]))
    weights = biases = b""
    for chunk in reply.messages:
        block = decode(last(decode(chunk), 1, b""))
        weights += last(decode(last(block, 2, b"")), 4, b"")
        biases += last(block, 3, b"")
    return weights, biases


# --- identity ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Welcome:
    generation: int
    next_sequence: int


def hello(connection, job, client_id, acknowledged, timeout=PATIENCE_SECONDS):
    fields = _result("Hello", connection.unary(
        _SHARD + "Hello", data(1, job) + data(2, client_id) + uint(3, acknowledged), timeout))
    return Welcome(last(fields, 1), last(fields, 3))


def bye(connection, job, client_id, timeout=PATIENCE_SECONDS):
    return connection.unary(_SHARD + "CloseClient", data(1, job) + data(2, client_id), timeout)


# --- checkpoints ---------------------------------------------------------------------------------


def write_checkpoint(connection, model, checkpoint):
    return _result("WriteCheckpoint", connection.unary(
        _SHARD + "WriteCheckpoint", data(1, model) + data(2, checkpoint)))


def load_checkpoint(connection, model, checkpoint):
    """The Reply: an error is an answer that the caller looks at."""
    request = data(1, model) + data(2, checkpoint)
    return connection.unary(_SHARD + "LoadCheckpoint", request)


def await_operation(connection, operation):
    """The fields of an operation once it is done; its error raises. operation: its fields now."""
    while not last(operation, 4, 0):
        wait = message(2, uint(1, OPERATION_WAIT_SECONDS))
        answer = _result("GetOperation", connection.unary(
            _COORDINATOR + "GetOperation", data(1, last(operation, 1)) + wait))
        operation = decode(last(answer, 1))
    error = decode(last(operation, 6, b""))
    if error:
        raise OperationFailed(last(operation, 2), error)
    return operation


def create_cluster_checkpoint(connection):
    """The fields of the checkpoint that was committed."""
    started = _result("CreateClusterCheckpoint", connection.unary(
        _COORDINATOR + "CreateClusterCheckpoint", b""))
    done = await_operation(connection, decode(last(started, 1)))
    return decode(last(done, 12))
