"""Bad updates between good ones leave no trace: the rows are those of a run without them.

Two shards of their own get the same good updates in the same order. One of them also gets bad ones,
`per_good` of them for each good one, from the client that sends the good ones and from another:
NaN, infinities, numbers beyond the bound, rows that do not exist or come twice, wrong shapes, cut
bytes (poison_updates.py). Each must be refused, with a word that fits; subnormal numbers and -0 may
be taken, but must change nothing. At the end weights, digests (optimizer states are in them) and
counts of updates are compared bit for bit.
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
from collections.abc import Callable, Iterator
from typing import Any

import processes
import shard_client
from dslide.v1 import shard_pb2
from dslide.v1.common_pb2 import RequestEnvelope
from dslide.v1.shard_pb2 import ScatterRequest, StepRequest
from grpc_client import CallFailed, Connection
from poison_updates import EXPECTED, GOOD, HARMLESS, KINDS, MODELS, brink

JOB = "poison"
# Each so many answers, the client forgets: the shard may too.
_INCOMPLETE_WINDOW = 8
SCATTER = "/dslide.v1.ShardService/Scatter"
Request = ScatterRequest | StepRequest | bytes


class Sender:
    """One client of a shard: numbers its calls, and says what became of them."""

    def __init__(self, connection: Connection, client_id: bytes) -> None:
        self._connection, self._client = connection, client_id
        self._generation = shard_client.hello(connection, JOB, client_id, 0).generation
        self._next = 1

    def send(self, make: Callable[[RequestEnvelope], Request]) -> str:
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

    def _answer(self, request: Request) -> str:
        try:
            if isinstance(request, StepRequest):
                answers = self._connection.call_stream(request, shard_pb2.StepResponse)
                return answers[0].error.reason if answers else ""
            if isinstance(request, ScatterRequest):
                self._connection.call(request, shard_pb2.ScatterResponse)
            else:
                self._connection.call_bytes(SCATTER, request)
            return ""
        except CallFailed as error:
            return error.reason or str(error)


@dataclasses.dataclass
class Tally:
    sent: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    taken: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    wrong: list[str] = dataclasses.field(default_factory=list)

    def add(self, kind: str, reason: str) -> None:
        self.sent[kind] += 1
        self.taken[kind] += not reason
        if kind in EXPECTED and reason not in EXPECTED[kind][1]:
            self.wrong.append(f"{kind} number {self.sent[kind]}: {reason or 'taken'}")


@contextlib.contextmanager
def running_shard(directory: pathlib.Path, quarantine_limit: int = 0) -> Iterator[Connection]:
    """A connection to a shard of its own that has the models.

    Ten bad requests for each good one: with a quarantine no client would last.
    """
    directory.mkdir()
    with processes.Programs(directory) as programs:
        shard = programs.start_lone_shard("--quarantine-limit", quarantine_limit, "--data-dir",
                                          directory / "data")
        with Connection(shard.address) as connection:
            for model in MODELS:
                shard_client.create_model(connection, model)
            yield connection


def state_of(connection: Connection) -> dict[str, tuple[int, int, str]]:
    """All that is comparable of the rows: {table: (updates, digest, hash of the weights)}."""
    found = {}
    for model in MODELS:
        # A model has one table, of its own name.
        state = shard_client.describe_model(connection, model.name)[model.name]
        weights, _ = shard_client.gather_bytes(connection, model.name, model.name,
                                               list(range(state.spec.rows)))
        found[model.name] = (state.applied_steps, state.digest, hashlib.sha256(weights).hexdigest())
    return found


def _good(sender: Sender, make: Callable[[RequestEnvelope], Request]) -> None:
    reason = sender.send(make)
    if reason:
        raise RuntimeError(f"a good update was refused: {reason}")


def _state_after(seed: int, goods: int, per_good: int, directory: pathlib.Path,
                 tally: Tally | None = None) -> dict[str, tuple[int, int, str]]:
    """state_of() a shard after the good updates; `tally` gets the poison, None: none is sent."""
    good, bad, names = (random.Random(f"{seed}/{name}") for name in ("good", "bad", "ids"))
    with running_shard(directory) as connection:
        honest, other = (Sender(connection, names.randbytes(16)) for _ in range(2))
        _good(honest, brink)
        for _ in range(goods):
            _good(honest, functools.partial(good.choice(GOOD), good))
            for _ in range(per_good if tally else 0):
                kind = bad.choice(list(KINDS))
                sender = bad.choice((honest, other))
                assert tally is not None
                tally.add(kind, sender.send(functools.partial(KINDS[kind], bad)))
        return state_of(connection)


def run(seed: int, count: int, per_good: int) -> dict[str, Any]:
    """The result of one comparison, over `count` bad updates."""
    tally, goods = Tally(), -(-count // per_good)
    with tempfile.TemporaryDirectory(prefix="dslide-poison-") as name:
        directory = pathlib.Path(name)
        clean = _state_after(seed, goods, per_good, directory / "clean")
        poisoned = _state_after(seed, goods, per_good, directory / "poisoned", tally)
    mismatches = [f"table {name}: {poisoned[name]} instead of {clean[name]}"
                  for name in clean if poisoned[name][1:] != clean[name][1:]]
    taken = sum(tally.taken[kind] for kind in HARMLESS)
    applied = sum(poisoned[name][0] - clean[name][0] for name in clean)
    if applied != taken:
        mismatches.append(f"{applied} more updates counted, {taken} harmless ones taken")
    return {"poison": tally.sent.total(), "poison_mismatches": len(mismatches) + len(tally.wrong),
            "kinds": sorted(tally.sent), "mismatches": (mismatches + tally.wrong)[:20]}
