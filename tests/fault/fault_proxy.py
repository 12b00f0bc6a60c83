"""A TCP proxy on loopback that does to connections what bad networks do, from a seed.

    python3 fault_proxy.py --target HOST:PORT [--listen HOST:PORT] [--seed N] [--rule JSON]...
                           [--control PATH] [--trace FILE]

One process carries any number of connections. Faults (fault_plan.Rule): delay with jitter, rate
limit, cut (RST), half-close, stall, byte flip, one-way blackhole, duplicated HTTP/2 frames, and
replies lost on their way (frames of the server swallowed, then RST). Planned faults come from
rules; the verbs of `command()` act at once. Every fault is counted, and logged with its place:

    {"fault": "flip", "connection": 0, "direction": "up", "offset": 4711, "bit": 3}

In a process: `with RunningProxy(target, seed=1, rules=[...]) as proxy`, then proxy.address. As a
process: the address is its first line of stdout, and commands are JSON lines on the control socket.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import os
import socket
import struct
import sys
import threading
import time

import fault_paths  # noqa: F401
from fault_plan import DELAY_BLOCK_BYTES, DIRECTIONS, DOWN, UP, Rule, StreamPlan
from hyperframe import frame
from processes import PATIENCE_SECONDS

_READ_BYTES = 65536
_PREFACE_BYTES = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_HEADER_BYTES = 9
FRAME_NAMES = {kind: found.__name__.removesuffix("Frame").upper()
               for kind, found in frame.FRAMES.items()}


def _place(address):
    host, _, port = address.rpartition(":")
    return host, int(port)


class Trace:
    """Every injected fault, in the order in which they were injected. Thread-safe."""

    def __init__(self, path=None):
        self._lock = threading.Lock()
        self._file = open(path, "a", encoding="utf-8") if path else None
        self._entries = []
        self._counts = collections.Counter()

    def add(self, fault, stream, offset, **details):
        entry = {"fault": fault, "connection": stream.connection.number,
                 "direction": stream.direction, "offset": offset} | details
        with self._lock:
            self._entries.append(entry)
            self._counts[fault] += 1
            if self._file:
                self._file.write(json.dumps(entry) + "\n")
                self._file.flush()

    def close(self):
        if self._file:
            self._file.close()

    def counts(self):
        with self._lock:
            return dict(self._counts)

    def entries(self):
        """By place, which is comparable between runs: connections run beside each other."""
        with self._lock:
            return sorted(self._entries, key=lambda entry: (
                entry["connection"], entry["direction"], entry["offset"], entry["fault"]))


class _Stop(Exception):
    """This direction forwards nothing more."""


class _FrameSpoiler:
    """Repeats or swallows whole frames of one direction."""

    def __init__(self, plan, direction):
        self._plan = plan
        self._unread = b""  # the beginning of a frame
        self._preface = _PREFACE_BYTES if direction == UP else 0
        self._counts = collections.Counter()
        self._offset = self._preface  # of the next frame

    def spoil(self, data, log):
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

    def _frames(self, data):
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

    def __init__(self, plan, writer, log):
        self._plan, self._writer, self._log = plan, writer, log
        self._offset = 0
        self._free_at = 0.0  # when the bytes before have passed the rate limit
        self._waiting = collections.deque()  # (due, data); None: the end
        self._wakes = asyncio.Event()
        self._blocks_logged = 0
        # Small pieces keep a limited rate even.
        rates = [rule.rate for rule in plan.shaping if rule.kind == "rate"]
        self._piece = max(1, min([DELAY_BLOCK_BYTES, *(int(rate / 50) for rate in rates)]))
        self._task = asyncio.create_task(self._write_waiting())

    async def write(self, data):
        if not self._plan.shaping:
            self._writer.write(data)
            await self._writer.drain()
            return
        while data:
            size = min(self._piece, DELAY_BLOCK_BYTES - self._offset % DELAY_BLOCK_BYTES, len(data))
            due = max([time.monotonic(), *(due for due, _ in list(self._waiting)[-1:])])
            self._waiting.append((max(due, self._due(size)), data[:size]))
            self._wakes.set()
            self._offset += size
            data = data[size:]
            # The sender feels the limit, too.
            while len(self._waiting) > 256:
                await asyncio.sleep(0.001)

    def _due(self, size):
        due = time.monotonic()
        for rule in self._plan.shaping:
            if rule.kind == "delay":
                block = self._offset // DELAY_BLOCK_BYTES
                seconds = self._plan.delay_of_block(rule, block)
                due += seconds
                if self._offset >= self._blocks_logged:
                    self._blocks_logged = (block + 1) * DELAY_BLOCK_BYTES
                    self._log("delay", block * DELAY_BLOCK_BYTES, seconds=round(seconds, 6))
            else:
                if self._free_at == 0.0:
                    self._log("rate", self._offset, rate=rule.rate)
                self._free_at = max(self._free_at, time.monotonic()) + size / rule.rate
                due = max(due, self._free_at)
        return due

    async def _write_waiting(self):
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

    async def flush(self):
        """Waits until all that was written has left."""
        while self._waiting and not self._task.done():
            await asyncio.sleep(0.001)
        with contextlib.suppress(OSError):
            await self._writer.drain()

    async def end(self):
        """The receiver sees the end, after what was written."""
        await self.flush()
        with contextlib.suppress(OSError):
            if self._writer.can_write_eof():
                self._writer.write_eof()

    def stop(self):
        self._task.cancel()


class _Stream:
    """One direction of a connection: reads, spoils, passes on."""

    def __init__(self, connection, direction, reader, writer, plan):
        self.connection = connection
        self.direction = direction
        self.offset = 0  # bytes that were taken from the sender
        self.silent = False  # takes bytes and passes nothing on
        self._reader, self._plan = reader, plan
        self._shaper = _Shaper(plan, writer, self._log)
        self._spoiler = _FrameSpoiler(plan, direction) if plan.frame_aware else None

    def _log(self, fault, offset, **details):
        self.connection.trace.add(fault, self, offset, **details)

    async def run(self):
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

    async def _take(self, data):
        while data:
            due = self._plan.next_byte_fault(self.offset + len(data))
            if due is None:
                await self._pass_on(data)
                return
            rule, places = due
            before = max(0, places.next - self.offset)
            await self._pass_on(data[:before])
            data = data[before:]
            bit = places.choose(8)
            places.advance()
            if rule.kind == "flip":
                self._log("flip", self.offset, bit=bit)
                data = bytes([data[0] ^ 1 << bit]) + data[1:]
            else:
                await self.strike(rule.kind, rule.seconds)

    async def strike(self, kind, seconds=0.0):
        """A fault that has no parameter but the time, here and now."""
        self._log(kind, self.offset)
        if kind == "stall":
            self.connection.stall(seconds)
            await self.connection.wait_while_stalled()
            return
        await self._shaper.flush()
        self.silent = True
        if kind == "half_close":
            await self._shaper.end()
        elif kind == "cut":
            self.connection.reset()
            raise _Stop

    async def _pass_on(self, data):
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

    def __init__(self, number, trace, client, target, plans):
        self.number = number
        self.trace = trace
        self._writers = (client[1], target[1])
        self._stalled_until = 0.0
        self.streams = {UP: _Stream(self, UP, client[0], target[1], plans[UP]),
                        DOWN: _Stream(self, DOWN, target[0], client[1], plans[DOWN])}

    async def run(self):
        await asyncio.gather(*(stream.run() for stream in self.streams.values()))
        for writer in self._writers:
            writer.close()

    def reset(self):
        """Both ends see a reset instead of an end."""
        for writer in self._writers:
            _reset(writer)

    def stall(self, seconds):
        self._stalled_until = max(self._stalled_until, time.monotonic() + seconds)

    async def wait_while_stalled(self):
        while self._stalled_until > time.monotonic():
            await asyncio.sleep(min(0.02, max(0.0, self._stalled_until - time.monotonic())))


def _reset(writer):
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class FaultProxy:
    """The proxy itself; everything but the constructor runs in its event loop."""

    def __init__(self, target, seed=0, rules=(), trace_path=None):
        self._target = _place(target)
        self._seed = seed
        self._rules = list(rules)
        self._accepted = 0
        self._connections = set()
        self._refusing = False
        self._silent_directions = set()
        self.trace = Trace(trace_path)
        self._server = None

    async def listen(self, address="127.0.0.1:0"):
        """The address under which it takes connections."""
        self._server = await asyncio.start_server(self._accept, *_place(address))
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def close(self):
        self._server.close()
        for connection in list(self._connections):
            connection.reset()
        self.trace.close()

    async def _accept(self, client_reader, client_writer):
        number, self._accepted = self._accepted, self._accepted + 1
        if self._refusing:
            _reset(client_writer)
            return
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

    async def command(self, request):
        """Acts at once on all open connections, or on number `connection`; answers with a dict.

        {"do": "cut"}; {"do": "half_close" or "blackhole", "directions": [...]}; {"do": "stall",
        "seconds": ...}; {"do": "refuse"}: new connections are reset; {"do": "heal"}: ends refusing
        and blackholes, whose connections are cut, since their bytes are gone; {"do": "rules",
        "rules": [...]}: for connections to come; {"do": "stats"}.
        """
        verb = request["do"]
        chosen = [connection for connection in self._connections
                  if request.get("connection", connection.number) == connection.number]
        if verb in ("cut", "half_close", "blackhole", "stall"):
            directions = request.get("directions", [UP])
            if verb == "blackhole":
                self._silent_directions.update(directions)
            await self._strike(chosen, verb, directions, request.get("seconds", 0.0))
        elif verb == "refuse":
            self._refusing = True
        elif verb == "heal":
            self._heal()
        elif verb == "rules":
            self._rules = [Rule(**rule) for rule in request["rules"]]
        elif verb != "stats":
            raise ValueError(f"unknown command {verb!r}")
        return {"accepted": self._accepted, "open": len(self._connections),
                "faults": self.trace.counts()}

    async def _strike(self, connections, verb, directions, seconds):
        for connection in connections:
            for direction in directions:
                # A cut ends the stream's own task by the reset; here it only has to be survived.
                with contextlib.suppress(_Stop):
                    if verb == "stall":
                        connection.stall(seconds)
                        self.trace.add("stall", connection.streams[direction],
                                       connection.streams[direction].offset)
                    else:
                        await connection.streams[direction].strike(verb)

    def _heal(self):
        self._refusing = False
        self._silent_directions.clear()
        for connection in list(self._connections):
            if any(stream.silent for stream in connection.streams.values()):
                connection.reset()

    async def serve_control(self, path):
        """Takes commands as JSON lines on a Unix socket; each is answered by a JSON line."""

        async def serve(reader, writer):
            while line := await reader.readline():
                try:
                    answer = await self.command(json.loads(line))
                except (ValueError, KeyError, TypeError) as error:
                    answer = {"error": f"{type(error).__name__}: {error}"}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
            writer.close()

        await asyncio.start_unix_server(serve, path)


class RunningProxy:
    """A FaultProxy in a thread of this process; a context manager."""

    def __init__(self, target, seed=0, rules=(), listen="127.0.0.1:0", trace_path=None):
        self._proxy = FaultProxy(target, seed, rules, trace_path)
        self.trace = self._proxy.trace
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.address = self._run(self._proxy.listen(listen))

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_SECONDS)

    def command(self, do, **arguments):
        return self._run(self._proxy.command({"do": do} | arguments))

    def close(self):
        self._run(self._proxy.close())

        async def finish():
            pending = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

        self._run(finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


async def _serve(options):
    rules = [Rule(**json.loads(rule)) for rule in options.rule]
    proxy = FaultProxy(options.target, options.seed, rules, options.trace)
    address = await proxy.listen(options.listen)
    if options.control:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(options.control)
        await proxy.serve_control(options.control)
    print(address, flush=True)
    print(f"fault proxy: {address} -> {options.target}, seed {options.seed}", file=sys.stderr,
          flush=True)
    await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser(description="A TCP proxy that injects faults from a seed.")
    parser.add_argument("--target", required=True, help="HOST:PORT of the server")
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rule", action="append", default=[], metavar="JSON",
                        help='for example {"kind": "cut", "direction": "down", "every": 100000}')
    parser.add_argument("--control", help="path of a Unix socket for commands")
    parser.add_argument("--trace", help="file that gets a JSON line for each fault")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
