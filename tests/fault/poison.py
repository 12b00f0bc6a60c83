"""Bad updates between good ones leave no trace: the rows are those of a run without them.

Two shards of their own get the same good updates in the same order. One of them also gets `count`
bad ones, `per_good` of them for each good one, from the client that sends the good ones and from
another: NaN, infinities, numbers beyond the bound, rows that do not exist or come twice, wrong
shapes, cut bytes (poison_updates.py). Each must be refused, with a word that fits; subnormal
numbers and -0 may be taken, but must change nothing. At the end weights, digests (optimizer states
are in them) and counts of updates are compared bit for bit.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import pathlib
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import processes
import shard_client
from dslide.v1 import shard_pb2
from dslide.v1.common_pb2 import RequestEnvelope
from dslide.v1.shard_pb2 import ScatterRequest, StepRequest
from fault_cluster import DURABILITY_FLAGS
from grpc_client import CallFailed, Connection, ConnectionLost
from poison_updates import EXPECTED, GOOD, HARMLESS, KINDS, MODELS, Kind, brink

JOB = "poison"
# Each so many answers, the client forgets: the shard may too.
_INCOMPLETE_WINDOW = 8
SCATTER = "/dslide.v1.ShardService/Scatter"


Request = ScatterRequest | StepRequest | bytes
Make = Callable[[RequestEnvelope], Request]


class Sender:
    """One client of a shard: numbers its calls, and says what became of them."""

    def __init__(self, connection: Connection, client_id: bytes) -> None:
        self._connection, self._client = connection, client_id
        self._generation = shard_client.hello(connection, JOB, client_id, 0).generation
        self._next = 1

    def send(self, make: Make) -> str:
        """The reason word of a refusal, "" of what was taken; `make(envelope)` is the request."""
        reason = self._answer(make(shard_client.envelope_of(
            JOB, self._client, self._next, max(1, self._next - _INCOMPLETE_WINDOW),
            self._generation, "")))
        # Most refusals use the number up and some do not: the shard knows.
        if reason:
            self._next = shard_client.hello(self._connection, JOB, self._client,
                                            self._next - 1).next_sequence
        else:
            self._next += 1
        return reason

    def _answer(self, request: ScatterRequest | StepRequest | bytes) -> str:
        try:
            if isinstance(request, shard_pb2.StepRequest):
                answers = self._connection.call_stream(request, shard_pb2.StepResponse)
                return answers[0].error.reason if answers else ""
            if isinstance(request, shard_pb2.ScatterRequest):
                self._connection.call(request, shard_pb2.ScatterResponse)
            else:
                self._connection.call_bytes(SCATTER, request)
            return ""
        except CallFailed as error:
            return error.reason or str(error)


@dataclasses.dataclass
class Tally:
    sent: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    reasons: collections.Counter[tuple[str, str]] = dataclasses.field(
        default_factory=collections.Counter)
    wrong: list[str] = dataclasses.field(default_factory=list)

    def add(self, kind: Kind, reason: str) -> None:
        name = kind.__name__
        self.sent[name] += 1
        self.reasons[name, reason or "taken"] += 1
        if kind in EXPECTED and reason not in EXPECTED[kind]:
            self.wrong.append(f"{name} number {self.sent[name]}: {reason or 'taken'}")


@contextlib.contextmanager
def running_shard(directory: pathlib.Path, mode: str,
                  quarantine_limit: int = 0) -> Iterator[tuple[Connection, processes.Process]]:
    """A connection to a shard of its own that has the model; and its process.

    Ten bad requests for each good one: with a quarantine no client would last.
    """
    directory.mkdir()
    process = processes.Process("dslide-shard", [
        "--listen", "127.0.0.1:0", "--admin", "", "--coordinator", "", "--threads", 1,
        "--quarantine-limit", quarantine_limit,
        "--data-dir", directory / "data", *DURABILITY_FLAGS[mode]], directory)
    try:
        address = process.wait_for_stderr(r" serving address=(\S+)").group(1)
        with Connection(address) as connection:
            for model in MODELS:
                shard_client.create_model(connection, model)
            yield connection, process
    finally:
        process.kill()


def state_of(connection: Connection) -> dict[str, tuple[int, str]]:
    """All that is comparable of the rows: {table: (digest, hash of the weights' bytes)}."""
    found = {}
    for name, state in _tables(connection).items():
        weights, _ = shard_client.gather_bytes(connection, name, name, list(range(state.spec.rows)))
        found[name] = (state.digest, hashlib.sha256(weights).hexdigest())
    return found


def _tables(connection: Connection) -> dict[str, shard_client.TableState]:
    """{name: shard_client.TableState}; a model has one table of its own name."""
    return {model.name: shard_client.describe_model(connection, model.name)[model.name]
            for model in MODELS}


def applied_steps(connection: Connection) -> dict[str, int]:
    return {name: state.applied_steps for name, state in _tables(connection).items()}


class Run:
    """The same good updates in every run; with `poison`, bad ones between them."""

    def __init__(self, seed: int, count: int, per_good: int, mode: str,
                 directory: pathlib.Path) -> None:
        self._seed, self._count, self._per_good = seed, count, per_good
        self._mode, self._directory = mode, directory

    def run(self, name: str, tally: Tally | None = None) -> Any:
        """(state, applied steps); `tally` gets the poison, None: none is sent."""
        goods = random.Random(f"{self._seed}/good")
        bads = random.Random(f"{self._seed}/bad")
        with running_shard(self._directory / name, self._mode) as (connection, process):
            ids = random.Random(f"{self._seed}/ids")
            honest, other = (Sender(connection, ids.randbytes(16)) for _ in range(2))
            self._good(honest, brink)
            for _ in range(-(-self._count // self._per_good)):
                make = goods.choice(GOOD)
                self._good(honest, functools.partial(make, goods))
                if tally is None:
                    continue
                for _ in range(self._per_good):
                    kind = bads.choice(KINDS)
                    sender = bads.choice((honest, other))
                    tally.add(kind, sender.send(functools.partial(kind, bads)))
            state = state_of(connection), applied_steps(connection)
            if not process.running():
                raise RuntimeError(f"the shard has ended: {process}")
            return state

    @staticmethod
    def _good(sender: Sender, make: Make) -> None:
        reason = sender.send(make)
        if reason:
            raise RuntimeError(f"a good update was refused: {reason}")


def run(seed: int, count: int, per_good: int, mode: str = "checkpoint") -> Any:
    """The result of one comparison."""
    tally = Tally()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dslide-poison-") as directory:
        runs = Run(seed, count, per_good, mode, pathlib.Path(directory))
        clean, clean_steps = runs.run("clean")
        try:
            poisoned, steps = runs.run("poisoned", tally)
        except ConnectionLost as error:
            raise RuntimeError(f"seed {seed}: the poisoned shard is gone: {error}") from error
    mismatches = [f"table {name}: {poisoned[name]} instead of {clean[name]}"
                  for name in clean if poisoned[name] != clean[name]]
    taken = sum(tally.reasons[kind.__name__, "taken"] for kind in HARMLESS)
    applied = sum(steps.values()) - sum(clean_steps.values())
    if applied != taken:
        mismatches.append(f"{applied} more updates counted, {taken} harmless ones taken")
    by_kind: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for (kind, reason), times in sorted(tally.reasons.items()):
        by_kind[kind][reason] = times
    return {"seed": seed, "poison": sum(tally.sent.values()), "good": sum(clean_steps.values()),
            "poison_mismatches": len(mismatches) + len(tally.wrong), "kinds": dict(by_kind),
            "mismatches": (mismatches + tally.wrong)[:20],
            "seconds": round(time.monotonic() - started, 1)}
