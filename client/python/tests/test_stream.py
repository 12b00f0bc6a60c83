"""A step stream beside a shard that refuses, breaks, forgets and repeats itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

import dslide
from dslide._io import BlockingIo
from dslide._stream import ShardStream
from dslide._transport import Peer, Settings
from dslide.v1 import shard_pb2, shard_pb2_grpc

PATIENCE = 120.0
INVALID, PRECONDITION, EXHAUSTED = (
    code.value[0]
    for code in (
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    )
)


class FakeShard(shard_pb2_grpc.ShardServiceServicer):
    """Applies numbers in order and keeps count; what goes wrong is told by sequence."""

    def __init__(self) -> None:
        self.applied = 0
        self.times: dict[int, int] = {}
        self.generation = 7
        self.busy: dict[int, int] = {}  # how often a number is refused for the moment
        self.retry_after_ms = 2
        self.wrong: set[int] = set()
        self.break_before: set[int] = set()  # the stream ends, and nothing was applied
        self.break_after: set[int] = set()  # it was applied, and the answer is lost
        self.twice = False
        self.closes = 0
        self._mutex = threading.Lock()

    def Hello(self, request: Any, context: Any) -> Any:
        with self._mutex:
            return shard_pb2.HelloResponse(
                generation=self.generation,
                next_sequence=self.applied + 1,
                capabilities=["packed-steps"],
            )

    def CloseClient(self, request: Any, context: Any) -> Any:
        self.closes += 1
        return shard_pb2.CloseClientResponse()

    def Step(self, requests: Any, context: Any) -> Any:
        for request in requests:
            with self._mutex:
                answer = self._handle(request)
            if answer is None:
                context.abort(grpc.StatusCode.UNAVAILABLE, "broken on purpose")
            yield answer
            if self.twice:
                yield answer

    def _handle(self, request: Any) -> Any:
        number = request.envelope.sequence
        answer = shard_pb2.StepResponse(sequence=number, generation=self.generation)

        def refuse(code: int, reason: str) -> Any:
            answer.error.code, answer.error.reason = code, reason
            if code == EXHAUSTED:
                answer.error.retry_after.FromMilliseconds(self.retry_after_ms)
            return answer

        if number in self.break_before:
            self.break_before.discard(number)
            return None
        if request.envelope.generation != self.generation:
            return refuse(PRECONDITION, "STALE_GENERATION")
        self.applied = max(self.applied, request.envelope.first_incomplete - 1)
        if number > self.applied + 1:
            return refuse(PRECONDITION, "SEQUENCE_GAP")
        if self.busy.get(number, 0) > 0:
            self.busy[number] -= 1
            return refuse(EXHAUSTED, "QUEUE_FULL")
        if number == self.applied + 1:
            self.applied += 1
            self.times[number] = self.times.get(number, 0) + 1
        if number in self.break_after:
            self.break_after.discard(number)
            return None
        if number in self.wrong:
            return refuse(INVALID, "FOREIGN_ROW")
        answer.embed_backward.distinct_rows = number
        return answer


@contextlib.contextmanager
def _stream(shard: FakeShard, timeout: float = PATIENCE) -> Iterator[ShardStream]:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    shard_pb2_grpc.add_ShardServiceServicer_to_server(shard, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    settings = Settings(timeout=timeout)
    peer = Peer(
        BlockingIo(), settings, address, "shard 3", "start it", shard_pb2_grpc.ShardServiceStub
    )
    stream = ShardStream(peer, settings, bytes(16), "m", 1)
    try:
        yield stream
    finally:
        stream.close()
        peer.channel.close()
        server.stop(None)


def _send(stream: ShardStream, count: int) -> None:
    for _ in range(count):
        stream.send(1, 1, embed_backward=shard_pb2.EmbedBackward(table="t"))


def _numbers(stream: ShardStream, count: int) -> list[int]:
    return [stream.receive().embed_backward.distinct_rows for _ in range(count)]


def test_answers_come_in_the_order_of_sending() -> None:
    shard = FakeShard()
    with _stream(shard) as stream:
        _send(stream, 100)
        assert _numbers(stream, 100) == list(range(1, 101))
        assert stream.packed
    assert shard.closes == 1


@pytest.mark.parametrize("twice", [False, True])
def test_every_trouble_at_once_applies_everything_once(twice: bool) -> None:
    shard = FakeShard()
    shard.twice = twice
    shard.busy = {1: 1, 7: 3, 8: 1, 30: 2}
    shard.break_before, shard.break_after = {5, 20, 31}, {6, 8, 25}
    with _stream(shard) as stream:
        _send(stream, 40)
        assert _numbers(stream, 40) == list(range(1, 41))
        _send(stream, 10)
        assert _numbers(stream, 10) == list(range(41, 51))
        assert stream.reconnects >= 6
    assert shard.times == {number: 1 for number in range(1, 51)}


def test_an_error_concerns_its_own_operation_only() -> None:
    shard = FakeShard()
    shard.wrong = {2}
    with _stream(shard) as stream:
        _send(stream, 4)
        assert _numbers(stream, 1) == [1]
        with pytest.raises(dslide.InvalidArgumentError) as caught:
            stream.receive()
        assert (caught.value.reason, caught.value.applied) == ("FOREIGN_ROW", False)
        assert _numbers(stream, 2) == [3, 4]


def test_a_new_generation_that_kept_its_state_goes_on() -> None:
    shard = FakeShard()
    with _stream(shard) as stream:
        _send(stream, 3)
        assert _numbers(stream, 3) == [1, 2, 3]
        shard.generation, shard.break_before = 8, {4}
        _send(stream, 3)
        assert _numbers(stream, 3) == [4, 5, 6]


def test_a_shard_that_lost_confirmed_updates_is_data_loss() -> None:
    shard = FakeShard()
    with _stream(shard) as stream:
        _send(stream, 3)
        assert _numbers(stream, 3) == [1, 2, 3]
        shard.applied, shard.break_before = 1, {4}
        _send(stream, 1)
        with pytest.raises(dslide.DataLossError, match="lost updates") as caught:
            stream.receive()
        assert caught.value.reason == "LOST_UPDATES"


def test_a_shard_that_is_busy_beyond_the_deadline_is_an_error_at_once() -> None:
    shard = FakeShard()
    shard.busy = {1: 1}
    shard.retry_after_ms = int(2000 * PATIENCE)
    with _stream(shard) as stream:
        _send(stream, 1)
        with pytest.raises(dslide.ResourceExhaustedError) as caught:
            stream.receive()
        assert caught.value.reason == "QUEUE_FULL"
