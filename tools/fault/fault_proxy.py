"""A TCP proxy on loopback that does to connections what bad networks do, from a seed.

Any number of connections. Faults (fault_plan.Rule): delay with jitter, cut (RST), stall, duplicated
HTTP/2 frames, and replies lost on their way (frames of the server swallowed, then RST). partition()
swallows bytes at once, in one direction or both. Every fault is counted, and logged with its place:

    {"fault": "cut", "connection": 0, "direction": "up", "offset": 4711}

`with RunningProxy(target, seed=1, rules=[...]) as proxy`, then proxy.address.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from fault_plan import DELAY_BLOCK_BYTES, DIRECTIONS, DOWN, UP, Rule, StreamPlan
from hyperframe import frame
from processes import PATIENCE_SECONDS

_READ_BYTES = 65536
_PREFACE_BYTES = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_HEADER_BYTES = 9
FRAME_NAMES = {kind: found.__name__.removesuffix("Frame").upper()
               for kind, found in frame.FRAMES.items()}
_Result = TypeVar("_Result")
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Trace:
    """Every injected fault, in the order in which they were injected. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[dict[str, Any]] = []

    def add(self, fault: str, stream: _Stream, offset: int, **details: object) -> None:
        with self._lock:
            self._entries.append({"fault": fault, "connection": stream.connection.number,
                                  "direction": stream.direction, "offset": offset} | details)

    def counts(self) -> collections.Counter[str]:
        return collections.Counter(entry["fault"] for entry in self.entries())

    def entries(self) -> list[dict[str, Any]]:
        """By place, which is comparable between runs: connections run beside each other."""
        with self._lock:
            return sorted(self._entries, key=lambda entry: (
                entry["connection"], entry["direction"], entry["offset"], entry["fault"]))


class _Stop(Exception):
    """This direction forwards nothing more."""


class _FrameSpoiler:
    """Repeats or swallows whole frames of one direction."""

    def __init__(self, plan: StreamPlan, direction: str) -> None:
        self._plan = plan
        self._unread = b""  # the beginning of a frame
        self._preface = _PREFACE_BYTES if direction == UP else 0
        self._counts: collections.Counter[str] = collections.Counter()
        self._offset = self._preface  # of the next frame

    def spoil(self, data: bytes, log: Callable[..., None]) -> tuple[bytes, bool]:
        """(the bytes to pass on, whether a reply was lost); log(kind, offset, **details)."""
        out = data[:self._preface]
        self._preface -= len(out)
        for name, encoded in self._frames(data[len(out):]):
            index = self._counts[name]
            self._counts[name] += 1
            for rule, places in self._plan.frame_faults(name, index):
                places.advance()
                log(rule.kind, self._offset, frame=name, index=index)
                if rule.kind == "lose_reply":
                    return out, True
                out += encoded
            out += encoded
            self._offset += len(encoded)
        return out, False

    def _frames(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """(name, bytes) of the frames that `data` completes."""
        self._unread += data
        while len(self._unread) >= _HEADER_BYTES:
            size = _HEADER_BYTES + int.from_bytes(self._unread[:3], "big")
            if len(self._unread) < size:
                return
            whole, self._unread = self._unread[:size], self._unread[size:]
            yield FRAME_NAMES.get(whole[3], "UNKNOWN"), whole


class _Stream:
    """One direction of a connection: reads, spoils, passes on."""

    def __init__(self, connection: _Connection, direction: str, reader: asyncio.StreamReader,
                 writer: asyncio.StreamWriter, plan: StreamPlan) -> None:
        self.connection, self.direction = connection, direction
        self.offset = 0  # bytes that were taken from the sender
        self.silent = False  # takes bytes and passes nothing on
        self._written = self._blocks_logged = 0
        self._reader, self._writer, self._plan = reader, writer, plan
        self._spoiler = _FrameSpoiler(plan, direction) if plan.frame_aware else None

    def _log(self, fault: str, offset: int, **details: object) -> None:
        self.connection.trace.add(fault, self, offset, **details)

    async def run(self) -> None:
        try:
            while True:
                data = await self._reader.read(_READ_BYTES)
                await self.connection.wait_while_stalled()
                if not data:
                    break
                await self._take(data)
            if not self.silent and self._writer.can_write_eof():
                self._writer.write_eof()
        except _Stop:
            pass
        except OSError:
            self.connection.reset()

    async def _take(self, data: bytes) -> None:
        while data:
            due = self._plan.next_byte_fault(self.offset + len(data))
            if due is None:
                await self._pass_on(data)
                return
            rule, places = due
            assert places.next is not None
            before = max(0, places.next - self.offset)
            await self._pass_on(data[:before])
            data = data[before:]
            places.advance()
            self._log(rule.kind, self.offset)
            if rule.kind == "cut":
                self._cut()
            self.connection.stall(rule.seconds)
            await self.connection.wait_while_stalled()

    def _cut(self) -> None:
        self.connection.reset()
        raise _Stop

    async def _pass_on(self, data: bytes) -> None:
        self.offset += len(data)
        lost = False
        if self._spoiler:
            data, lost = self._spoiler.spoil(data, self._log)
        await self._write(data)
        if lost:
            self._cut()

    async def _write(self, data: bytes) -> None:
        while data and not self.silent:
            size = len(data)
            if self._plan.delays:
                size = min(DELAY_BLOCK_BYTES - self._written % DELAY_BLOCK_BYTES, size)
                await asyncio.sleep(self._delay())
            self._writer.write(data[:size])
            await self._writer.drain()
            self._written += size
            data = data[size:]

    def _delay(self) -> float:
        block, total = self._written // DELAY_BLOCK_BYTES, 0.0
        for rule in self._plan.delays:
            seconds = self._plan.delay_of_block(rule, block)
            total += seconds
            if block == self._blocks_logged:
                self._log("delay", block * DELAY_BLOCK_BYTES, seconds=round(seconds, 6))
        self._blocks_logged = block + 1
        return total


class _Connection:
    """A client's connection and the one to the target that belongs to it."""

    def __init__(self, number: int, trace: Trace, client: _Streams, target: _Streams,
                 plans: Mapping[str, StreamPlan]) -> None:
        self.number, self.trace = number, trace
        self._writers = (client[1], target[1])
        self._stalled_until = 0.0
        self.streams = {UP: _Stream(self, UP, client[0], target[1], plans[UP]),
                        DOWN: _Stream(self, DOWN, target[0], client[1], plans[DOWN])}

    async def run(self) -> None:
        await asyncio.gather(*(stream.run() for stream in self.streams.values()))
        for writer in self._writers:
            writer.close()

    def reset(self) -> None:
        """Both ends see a reset instead of an end."""
        for writer in self._writers:
            _reset(writer)

    def stall(self, seconds: float) -> None:
        self._stalled_until = max(self._stalled_until, time.monotonic() + seconds)

    async def wait_while_stalled(self) -> None:
        while self._stalled_until > time.monotonic():
            await asyncio.sleep(min(0.02, max(0.0, self._stalled_until - time.monotonic())))


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class RunningProxy:
    """A proxy in a thread of this process; a context manager.

    What is a coroutine runs in the event loop of that thread.
    """

    def __init__(self, target: str, seed: object = 0, rules: Sequence[Rule] = ()) -> None:
        host, _, port = target.rpartition(":")
        self._target, self._seed, self._rules = (host, int(port)), seed, list(rules)
        self._accepted = 0
        self._connections: set[_Connection] = set()
        self._silent_directions: set[str] = set()
        self.trace = Trace()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._accept, "127.0.0.1", 0))
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"

    def _run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_SECONDS)

    async def _accept(self, *client: Any) -> None:
        number, self._accepted = self._accepted, self._accepted + 1
        try:
            target = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(client[1])
            return
        plans = {direction: StreamPlan(self._seed, self._rules, number, direction)
                 for direction in DIRECTIONS}
        connection = _Connection(number, self.trace, client, target, plans)
        for direction in self._silent_directions:
            connection.streams[direction].silent = True
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    def partition(self, directions: Collection[str]) -> None:
        """Passes nothing more on in these directions, on all connections; heal() ends it."""

        async def begin() -> None:
            self._silent_directions.update(directions)
            for connection in self._connections:
                for direction in directions:
                    stream = connection.streams[direction]
                    self.trace.add("partition", stream, stream.offset)
                    stream.silent = True

        self._run(begin())

    def heal(self) -> None:
        """Cuts the connections of a partition: their bytes are gone."""

        async def end() -> None:
            self._silent_directions.clear()
            for connection in list(self._connections):
                if any(stream.silent for stream in connection.streams.values()):
                    connection.reset()

        self._run(end())

    def close(self) -> None:
        async def finish() -> None:
            self._server.close()
            for connection in list(self._connections):
                connection.reset()
            pending = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

        self._run(finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
