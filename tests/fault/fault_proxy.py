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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Self

from fault_plan import DELAY_BLOCK_BYTES, DIRECTIONS, DOWN, UP, Rule, StreamPlan
from hyperframe import frame
from processes import PATIENCE_SECONDS

_READ_BYTES = 65536
_PREFACE_BYTES = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_HEADER_BYTES = 9
FRAME_NAMES = {kind: found.__name__.removesuffix("Frame").upper()
               for kind, found in frame.FRAMES.items()}


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


class Trace:
    """Every injected fault, in the order in which they were injected. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[dict[str, Any]] = []
        self._counts: collections.Counter[str] = collections.Counter()

    def add(self, fault: str, stream: _Stream, offset: int, **details: object) -> None:
        entry = {"fault": fault, "connection": stream.connection.number,
                 "direction": stream.direction, "offset": offset} | details
        with self._lock:
            self._entries.append(entry)
            self._counts[fault] += 1

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)

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


class _Shaper:
    """Writes to one end of a connection, later and slower when the plan says so."""

    def __init__(self, plan: StreamPlan, writer: asyncio.StreamWriter,
                 log: Callable[..., None]) -> None:
        self._plan, self._writer, self._log = plan, writer, log
        self._offset = 0
        self._waiting: collections.deque[tuple[float, bytes]] = collections.deque()  # (due, data)
        self._wakes = asyncio.Event()
        self._blocks_logged = 0
        self._task = asyncio.create_task(self._write_waiting())

    async def write(self, data: bytes) -> None:
        if not self._plan.delays:
            self._writer.write(data)
            await self._writer.drain()
            return
        while data:
            size = min(DELAY_BLOCK_BYTES - self._offset % DELAY_BLOCK_BYTES, len(data))
            due = max([time.monotonic(), *(due for due, _ in list(self._waiting)[-1:])])
            self._waiting.append((max(due, self._due()), data[:size]))
            self._wakes.set()
            self._offset += size
            data = data[size:]
            # The sender feels the delay, too.
            while len(self._waiting) > 256:
                await asyncio.sleep(0.001)

    def _due(self) -> float:
        due, block = time.monotonic(), self._offset // DELAY_BLOCK_BYTES
        for rule in self._plan.delays:
            seconds = self._plan.delay_of_block(rule, block)
            due += seconds
            if self._offset >= self._blocks_logged:
                self._blocks_logged = (block + 1) * DELAY_BLOCK_BYTES
                self._log("delay", block * DELAY_BLOCK_BYTES, seconds=round(seconds, 6))
        return due

    async def _write_waiting(self) -> None:
        while True:
            while not self._waiting:
                self._wakes.clear()
                await self._wakes.wait()
            due, data = self._waiting[0]
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            try:
                self._writer.write(data)
                await self._writer.drain()
            except OSError:
                self._waiting.clear()
                return
            self._waiting.popleft()

    async def flush(self) -> None:
        """Waits until all that was written has left."""
        while self._waiting and not self._task.done():
            await asyncio.sleep(0.001)
        with contextlib.suppress(OSError):
            await self._writer.drain()

    async def end(self) -> None:
        """The receiver sees the end, after what was written."""
        await self.flush()
        with contextlib.suppress(OSError):
            if self._writer.can_write_eof():
                self._writer.write_eof()

    def stop(self) -> None:
        self._task.cancel()


class _Stream:
    """One direction of a connection: reads, spoils, passes on."""

    def __init__(self, connection: _Connection, direction: str, reader: asyncio.StreamReader,
                 writer: asyncio.StreamWriter, plan: StreamPlan) -> None:
        self.connection = connection
        self.direction = direction
        self.offset = 0  # bytes that were taken from the sender
        self.silent = False  # takes bytes and passes nothing on
        self._reader, self._plan = reader, plan
        self._shaper = _Shaper(plan, writer, self._log)
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
            if not self.silent:
                await self._shaper.end()
        except _Stop:
            pass
        except OSError:
            self.connection.reset()
        finally:
            self._shaper.stop()

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
            await self._strike(rule)

    async def _strike(self, rule: Rule) -> None:
        self._log(rule.kind, self.offset)
        if rule.kind == "stall":
            self.connection.stall(rule.seconds)
            await self.connection.wait_while_stalled()
            return
        await self._shaper.flush()
        self.connection.reset()
        raise _Stop

    async def _pass_on(self, data: bytes) -> None:
        self.offset += len(data)
        lost = False
        if self._spoiler:
            data, lost = self._spoiler.spoil(data, self._log)
        if data and not self.silent:
            await self._shaper.write(data)
        if lost:
            await self._shaper.flush()
            self.connection.reset()
            raise _Stop


class _Connection:
    """A client's connection and the one to the target that belongs to it."""

    def __init__(self, number: int, trace: Trace,
                 client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
                 target: tuple[asyncio.StreamReader, asyncio.StreamWriter],
                 plans: Mapping[str, StreamPlan]) -> None:
        self.number = number
        self.trace = trace
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


class FaultProxy:
    """The proxy itself; everything but the constructor runs in its event loop."""

    def __init__(self, target: str, seed: object = 0, rules: Sequence[Rule] = ()) -> None:
        self._target = _place(target)
        self._seed = seed
        self._rules = list(rules)
        self._accepted = 0
        self._connections: set[_Connection] = set()
        self._silent_directions: set[str] = set()
        self.trace = Trace()
        self._server: asyncio.Server | None = None

    async def listen(self, address: str = "127.0.0.1:0") -> str:
        """The address under which it takes connections."""
        self._server = await asyncio.start_server(self._accept, *_place(address))
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.reset()

    async def _accept(self, client_reader: asyncio.StreamReader,
                      client_writer: asyncio.StreamWriter) -> None:
        number, self._accepted = self._accepted, self._accepted + 1
        try:
            target = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(client_writer)
            return
        plans = {direction: StreamPlan(self._seed, self._rules, number, direction)
                 for direction in DIRECTIONS}
        connection = _Connection(number, self.trace, (client_reader, client_writer), target, plans)
        for direction in self._silent_directions:
            connection.streams[direction].silent = True
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    async def partition(self, directions: Collection[str]) -> None:
        """Passes nothing more on in these directions, on all connections; heal() ends it."""
        self._silent_directions.update(directions)
        for connection in self._connections:
            for direction in directions:
                stream = connection.streams[direction]
                self.trace.add("partition", stream, stream.offset)
                stream.silent = True

    async def heal(self) -> None:
        """Cuts the connections of a partition: their bytes are gone."""
        self._silent_directions.clear()
        for connection in list(self._connections):
            if any(stream.silent for stream in connection.streams.values()):
                connection.reset()


class RunningProxy:
    """A FaultProxy in a thread of this process; a context manager."""

    def __init__(self, target: str, seed: object = 0, rules: Sequence[Rule] = ()) -> None:
        self._proxy = FaultProxy(target, seed, rules)
        self.trace = self._proxy.trace
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.address = self._run(self._proxy.listen())

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_SECONDS)

    def partition(self, directions: Collection[str]) -> None:
        self._run(self._proxy.partition(directions))

    def heal(self) -> None:
        self._run(self._proxy.heal())

    def close(self) -> None:
        self._run(self._proxy.close())

        async def finish() -> None:
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
