"""A client that only counts: +1 to cells of its own, and a record of every call and answer.

    python3 increment_client.py --shard HOST:PORT [--shard ...] --history FILE --lanes FILE
                                --lane-count N [--rate 200] [--seed N] [--timeout 2]

One thread for each shard. An update gets the next sequence; while its outcome is unknown (the
connection broke, or the time is over) nothing else is sent: after a new connection and Hello, the
same sequence is sent again until the shard says what became of it, with more time each time. Now
and then an update that is already answered is sent again, and must be answered as before. A client
that a shard has forgotten goes on as a new one. SIGTERM: finishes what is open, and ends with 0.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence

import grpc
import shard_client
from dslide.v1.model_pb2 import TableSpec
from grpc_client import NO_ANSWER, CallFailed, Connection, ConnectionLost
from increment_cells import MODEL_NAME, SEQUENCES_PER_LANE, LaneBook, NoLaneLeft, lane_of, model_for
from oracle import Recorder
from processes import PATIENCE_SECONDS

JOB = "increments"
# How many answered updates the shard is asked to remember, and which may be sent again.
REMEMBERED = 8
REPEAT_PROBABILITY = 0.05
NO_LANE_EXIT = 3
_PAUSE_SECONDS = 0.05
# The client is not known any more under this id, or not with what it has sent.
_FORGOTTEN = ("CLOSED_CLIENT", "SEQUENCE_GAP", "STALE_SEQUENCE")
# The connection's or the id's state has to be asked for again.
_ASK_AGAIN = ("UNKNOWN_CLIENT", "STALE_GENERATION", "STALE_TOPOLOGY", "FENCED")


@dataclasses.dataclass
class Settings:
    history: Recorder
    lanes: LaneBook
    table: TableSpec
    num_shards: int
    rate: float
    seed: str
    timeout: float
    # Where a connection may hear nothing for minutes after its network is back: how soon another
    # one is tried.
    longest_timeout: float = PATIENCE_SECONDS
    # After SIGTERM, an update whose outcome is unknown is asked for so long.
    grace_seconds: float = PATIENCE_SECONDS


class Worker:
    """Counts on one shard, under one client id after the other."""

    def __init__(self, settings: Settings, shard: int, address: str,
                 stopping: threading.Event) -> None:
        self._settings, self._shard, self._address = settings, shard, address
        self._stopping = stopping
        self._random = random.Random(f"{settings.seed}/{shard}")
        self._open: Connection | None = None
        self._client = b""
        self._timeout = settings.timeout
        self.answered = 0

    def run(self) -> None:
        """Until it is told to stop and nothing is open, or no lane is left (NoLaneLeft)."""
        self._become_new()
        started, sent = time.monotonic(), 0
        while not self._stopping.is_set():
            if self._sequence > SEQUENCES_PER_LANE:
                self._close_client()
                self._become_new()
            if self._settle(self._sequence):
                self._sequence += 1
                # What a Hello called acknowledged, the shard need not remember any more.
                first = max(self._first_incomplete(), self._acknowledged + 1)
                if self._random.random() < REPEAT_PROBABILITY and first < self._sequence:
                    self._settle(self._random.randrange(first, self._sequence), again=True)
            sent += 1
            self._stopping.wait(max(0.0, started + sent / self._settings.rate - time.monotonic()))
        self._close_client()

    def _become_new(self) -> None:
        lane = self._settings.lanes.take(self._shard)
        self._lane = lane_of(self._settings.table, lane, self._shard, self._settings.num_shards)
        self._client = self._random.randbytes(16)
        self._sequence = 1  # the next one
        self._acknowledged = 0  # what the shard was told last
        self._generation = 0
        self._greeted = False
        self._record("client", lane=lane)

    def _record(self, event: str, **details: object) -> None:
        self._settings.history.record(event, client=self._client.hex(), shard=self._shard,
                                      **details)

    def _first_incomplete(self) -> int:
        return max(1, self._sequence - REMEMBERED)

    def _settle(self, sequence: int, again: bool = False) -> bool:
        """Sends an update until it is answered; whether this client goes on.

        again: it was answered before. Then it is sent once: after a lost answer comes a Hello.
        """
        give_up_at = None
        while True:
            if self._stopping.is_set():
                give_up_at = give_up_at or time.monotonic() + self._settings.grace_seconds
                if time.monotonic() > give_up_at:
                    return False
            try:
                if not self._greet():
                    return False
                decided = self._attempt(sequence, again)
            except (ConnectionLost, CallFailed) as error:
                if str(error).endswith(NO_ANSWER):
                    # A shard that is only slow must be able to answer one day.
                    self._timeout = min(2 * self._timeout, self._settings.longest_timeout)
                self._disconnect()
                decided = None
            if decided is not None or again:
                return decided is not False
            time.sleep(_PAUSE_SECONDS * self._random.random())

    @property
    def _connection(self) -> Connection:
        assert self._open is not None, "not connected"
        return self._open

    def _disconnect(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None
        self._greeted = False

    def _greet(self) -> bool:
        """Connects and says Hello where that is due; False after this client became a new one."""
        if self._open is None:
            self._open = Connection(self._address)
        if self._greeted:
            return True
        acknowledged = self._sequence - 1
        try:
            welcome = shard_client.hello(self._connection, JOB, self._client, acknowledged,
                                         self._timeout)
        except CallFailed as error:
            if error.reason in _FORGOTTEN:
                self._become_new()
                return False
            raise
        self._record("hello", acknowledged=acknowledged, next=welcome.next_sequence,
                     generation=welcome.generation)
        self._generation, self._acknowledged = welcome.generation, acknowledged
        if welcome.next_sequence <= acknowledged:
            # The shard has lost updates, and has said so.
            self._become_new()
            return False
        self._greeted = True
        return True

    def _attempt(self, sequence: int, again: bool) -> bool | None:
        """True: answered; False: this client is over; None: try again."""
        envelope = shard_client.envelope_of(
            JOB, self._client, sequence, min(sequence, self._first_incomplete()),
                            self._generation, MODEL_NAME)
        self._record("invoke", sequence=sequence)
        try:
            answer = shard_client.scatter_add(self._connection, envelope, self._settings.table,
                                              self._lane.update(sequence), self._timeout)
        except ConnectionLost as error:
            self._record("unknown", sequence=sequence, why=str(error))
            raise
        except CallFailed as error:
            self._timeout = self._settings.timeout
            return self._refused(sequence, error)
        self._timeout = self._settings.timeout
        repeated = {"again": True} if again else {}
        self._record("applied", sequence=sequence, generation=answer.generation,
                     step=answer.applied_steps, **repeated)
        self.answered += 1
        return True

    def _refused(self, sequence: int, error: CallFailed) -> bool | None:
        """As _attempt(), after an error."""
        if not error.reason or error.code in (grpc.StatusCode.CANCELLED,
                                              grpc.StatusCode.DEADLINE_EXCEEDED):
            # Not the shard's own word: nobody knows.
            self._record("unknown", sequence=sequence, why=str(error))
            self._disconnect()
            return None
        self._record("refused", sequence=sequence, code=error.code.name, reason=error.reason,
                     text=error.text[:200])
        if error.reason in _FORGOTTEN:
            self._become_new()
            return False
        if error.reason in _ASK_AGAIN:
            self._greeted = False
        return None

    def _close_client(self) -> None:
        try:
            if self._greet():
                shard_client.close_client(self._connection, JOB, self._client, self._timeout)
        except (ConnectionLost, CallFailed):
            pass  # a client that goes without a word expires
        self._disconnect()


def run(settings: Settings, addresses: Sequence[str], stopping: threading.Event) -> int:
    """Counts until `stopping`; the number of answers, or NoLaneLeft."""
    workers = [Worker(settings, shard, address, stopping)
               for shard, address in enumerate(addresses)]
    failures = []

    def work(worker: Worker) -> None:
        try:
            worker.run()
        except Exception as error:  # a thread that ends quietly would hide a fault of the harness
            failures.append(error)
            stopping.set()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        # Not for ever: a signal that came to one of gRPC's threads is handled when this one wakes.
        while thread.is_alive():
            thread.join(0.5)
    if failures:
        raise failures[0]
    return sum(worker.answered for worker in workers)


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts on shards, and records it.")
    parser.add_argument("--shard", action="append", required=True, metavar="HOST:PORT",
                        help="in the order of the shards' numbers")
    parser.add_argument("--history", type=pathlib.Path, required=True)
    parser.add_argument("--lanes", type=pathlib.Path, required=True,
                        help="beginning of the names of the files that the clients of a run share")
    parser.add_argument("--lane-count", type=int, required=True)
    parser.add_argument("--rate", type=float, default=200.0, help="updates a second on each shard")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--timeout", type=float, default=2.0)
    options = parser.parse_args()
    num_shards, stopping = len(options.shard), threading.Event()
    # Before there is a history: who waits for that may send a signal.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    settings = Settings(Recorder(options.history), LaneBook(options.lanes, options.lane_count),
                        model_for(options.lane_count, num_shards).tables[0], num_shards,
                        options.rate, options.seed, options.timeout)
    try:
        print(run(settings, options.shard, stopping), flush=True)
    except NoLaneLeft as error:
        print(f"increment client: {error}; give a larger --lane-count", file=sys.stderr)
        sys.exit(NO_LANE_EXIT)


if __name__ == "__main__":
    main()
