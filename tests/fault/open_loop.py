"""Calls that come at a rate of their own, whether the server keeps up or not.

One thread, many connections, up to 64 calls on each: what a crowd of clients does that do not wait
for each other. A call that has no answer within its timeout is given up, as a gRPC client would.
"""

import collections
import selectors
import socket
import struct
import time

import fault_paths  # noqa: F401
import grpc_client
import http2
from http2 import Frame
from processes import PATIENCE_SECONDS

STREAMS = 64
_SETTINGS = {http2.SETTINGS_HEADER_TABLE_SIZE: 0, http2.SETTINGS_ENABLE_PUSH: 0,
             http2.SETTINGS_INITIAL_WINDOW_SIZE: 1 << 30, http2.SETTINGS_GRPC_TRUE_BINARY: 1}
_CANCEL = struct.pack(">I", 8)


class _Connection:
    """A connection and its calls: {stream: time at which it is given up}."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(
            http2.PREFACE + Frame(http2.SETTINGS, 0, 0,
                                  http2.settings_payload(_SETTINGS)).encode()
            + Frame(http2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)).encode())
        self.socket.setblocking(False)
        self.calls = collections.OrderedDict()
        self.unsent = bytearray()
        self._frames, self._decoder = http2.FrameReader(), http2.HeaderDecoder()
        self._stream, self._block = -1, b""

    def send(self, data=b""):
        self.unsent += data
        try:
            while self.unsent:
                del self.unsent[:self.socket.send(self.unsent)]
        except BlockingIOError:
            pass

    def begin(self, block, body, gives_up):
        self._stream += 2
        self.calls[self._stream] = gives_up
        self.send(Frame(http2.HEADERS, http2.END_HEADERS, self._stream, block).encode()
                  + Frame(http2.DATA, http2.END_STREAM, self._stream, body).encode())

    def evict(self, now):
        """How many calls are given up."""
        count = 0
        while self.calls and next(iter(self.calls.values())) <= now:
            stream, _ = self.calls.popitem(last=False)
            self.send(Frame(http2.RST_STREAM, 0, stream, _CANCEL).encode())
            count += 1
        return count

    def receive(self):
        """Statuses of the calls that are answered; ConnectionLost at the end of the connection."""
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return []
        if not data:
            raise grpc_client.ConnectionLost("the server has closed a connection")
        statuses = []
        for frame in self._frames.feed(data):
            if frame.kind in (http2.SETTINGS, http2.PING) and not frame.flags & http2.ACK:
                answer = frame.payload if frame.kind == http2.PING else b""
                self.send(Frame(frame.kind, http2.ACK, 0, answer).encode())
            elif frame.kind == http2.HEADERS:
                fields = dict(self._decoder.decode(frame.content()))
                if "grpc-status" in fields and self.calls.pop(frame.stream, None) is not None:
                    statuses.append(int(fields["grpc-status"]))
            elif frame.kind == http2.RST_STREAM and self.calls.pop(frame.stream, None):
                statuses.append(grpc_client.UNAVAILABLE)
        return statuses


class OpenLoop:
    """Makes the same call again and again. Not thread-safe; a context manager."""

    def __init__(self, address, method, message, connections, timeout):
        self._timeout = timeout
        self._block = http2.encode_headers([
            (":method", "POST"), (":scheme", "http"), (":path", method), (":authority", address),
            ("te", "trailers"), ("content-type", "application/grpc"),
            ("grpc-timeout", f"{int(timeout * 1000)}m")])
        self._body = struct.pack(">BI", 0, len(message)) + message
        self._selector = selectors.DefaultSelector()
        self._connections = [_Connection(address) for _ in range(connections)]
        for connection in self._connections:
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        self._turn = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self._connections:
            connection.socket.close()
        self._selector.close()

    @property
    def _open_calls(self):
        return sum(len(connection.calls) for connection in self._connections)

    def _begin(self, now):
        """Whether there was a place for one more call."""
        for _ in self._connections:
            self._turn = (self._turn + 1) % len(self._connections)
            connection = self._connections[self._turn]
            if len(connection.calls) < STREAMS:
                connection.begin(self._block, self._body, now + self._timeout)
                return True
        return False

    def run(self, seconds, rate=None, at_once=None, tick=lambda: None):
        """{status code, "given up" or "no place": how many}.

        rate     calls begun per second; or
        at_once  calls under way at one time: a closed loop
        tick     called some hundred times a second
        """
        counts, begun = collections.Counter(), 0
        started = time.monotonic()
        while (now := time.monotonic()) < started + seconds:
            due = (int((now - started) * rate) - begun if rate is not None
                   else at_once - self._open_calls)
            for _ in range(due):
                begun += 1
                if not self._begin(now):
                    counts["no place"] += 1
            for connection in self._connections:
                counts["given up"] += connection.evict(now)
                if connection.unsent:
                    connection.send()
            for key, _ in self._selector.select(0.002):
                counts.update(key.data.receive())
            tick()
        return counts
