"""A gRPC connection on a plain socket: one call at a time, and exact about what became of it.

A stock client would hide what the fault tests are about: it reconnects by itself, and it turns a
broken connection into the same status as an answer of the server. Here a call returns the server's
own answer, or raises ConnectionLost: then nobody knows whether it was applied.
"""

import dataclasses
import socket
import struct
import time
import urllib.parse

import fault_paths  # noqa: F401
import http2
import protobuf
from processes import PATIENCE_SECONDS

UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED = 14, 4, 1
CODE_NAMES = ("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
              "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
              "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
              "UNAUTHENTICATED")

_WINDOW = 1 << 30
_SETTINGS = {http2.SETTINGS_HEADER_TABLE_SIZE: 0, http2.SETTINGS_ENABLE_PUSH: 0,
             http2.SETTINGS_INITIAL_WINDOW_SIZE: _WINDOW, http2.SETTINGS_GRPC_TRUE_BINARY: 1}


# Of a call whose time is over, and which nothing else has befallen.
NO_ANSWER = "no answer in time"


class ConnectionLost(RuntimeError):
    """The call has no answer: it may have been applied, or not."""


@dataclasses.dataclass
class Reply:
    """The server's answer: its messages, and a status with a reason word."""

    code: int
    text: str
    reason: str
    messages: list

    @property
    def ok(self):
        return self.code == 0

    def code_name(self):
        return CODE_NAMES[self.code] if self.code < len(CODE_NAMES) else str(self.code)

    def __str__(self):
        return f"{self.code_name()} {self.reason} {self.text}".strip()


def _reason_word(details):
    """The reason of the google.rpc.ErrorInfo in a google.rpc.Status, "" without one."""
    for packed in protobuf.decode(details).get(3, []):
        fields = protobuf.decode(packed)
        if protobuf.text(fields, 1).endswith("google.rpc.ErrorInfo"):
            return protobuf.text(protobuf.decode(protobuf.last(fields, 2, b"")), 1)
    return ""


class _Call:
    """What has arrived for the stream of one call."""

    def __init__(self, stream):
        self.stream = stream
        self.headers = {}
        self.data = bytearray()
        self.ended = False

    def reply(self):
        if self.headers.get(":status", "200") != "200":
            raise ConnectionLost(f"HTTP status {self.headers[':status']}")
        if "grpc-status" not in self.headers:
            raise ConnectionLost("the answer ended without a status")
        messages, at = [], 0
        while at + 5 <= len(self.data):
            compressed, length = struct.unpack_from(">BI", self.data, at)
            if compressed or at + 5 + length > len(self.data):
                raise ConnectionLost("an answer that is compressed or cut")
            messages.append(bytes(self.data[at + 5:at + 5 + length]))
            at += 5 + length
        return Reply(int(self.headers["grpc-status"]),
                     urllib.parse.unquote(self.headers.get("grpc-message", "")),
                     _reason_word(self.headers.get("grpc-status-details-bin", b"")), messages)


class Connection:
    """One TCP connection to HOST:PORT, encrypted with an ssl.SSLContext. Not thread-safe; a context
    manager."""

    def __init__(self, address, timeout=PATIENCE_SECONDS, tls=None):
        host, _, port = address.rpartition(":")
        self.address = address
        self._deadline = time.monotonic() + timeout
        try:
            self._socket = socket.create_connection((host, int(port)), timeout=timeout)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname="localhost")
        except OSError as error:
            raise ConnectionLost(f"{address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = http2.FrameReader()
        self._decoder = http2.HeaderDecoder()
        self._next_stream = 1
        self._window = http2.DEFAULT_WINDOW
        self._stream_window = self._initial_window = http2.DEFAULT_WINDOW
        self._call = None
        self._block = b""
        self._block_ends_stream = False
        self._going_away = False
        self._send(http2.PREFACE + http2.Frame(
            http2.SETTINGS, 0, 0, http2.settings_payload(_SETTINGS)).encode() + http2.Frame(
                http2.WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW)).encode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._socket.close()

    def call(self, method, messages, timeout=PATIENCE_SECONDS):
        """The Reply to a call of any kind: `messages` are encoded requests.

        ConnectionLost when the connection breaks or `timeout` seconds pass without an answer; the
        connection must not be used after that.
        """
        if self._going_away:
            raise ConnectionLost(f"{self.address}: the server is going away")
        self._deadline = time.monotonic() + timeout
        call = self._call = _Call(self._next_stream)
        self._next_stream += 2
        self._stream_window = self._initial_window
        headers = [(":method", "POST"), (":scheme", "http"), (":path", method),
                   (":authority", self.address), ("te", "trailers"),
                   ("content-type", "application/grpc"),
                   ("grpc-timeout", f"{max(1, int(timeout * 1000))}m")]
        self._send(http2.Frame(http2.HEADERS, http2.END_HEADERS, call.stream,
                               http2.encode_headers(headers)).encode())
        body = b"".join(struct.pack(">BI", 0, len(one)) + one for one in messages)
        self._send_body(call, body)
        while not call.ended:
            self._receive()
        return call.reply()

    def unary(self, method, message, timeout=PATIENCE_SECONDS):
        return self.call(method, [message], timeout)

    def _send_body(self, call, body):
        at = 0
        while True:
            while at < len(body) and min(self._window, self._stream_window) <= 0:
                self._receive()
                if call.ended:
                    return  # refused before it was whole
            size = min(len(body) - at, self._window, self._stream_window, http2.DEFAULT_MAX_FRAME)
            last = at + size == len(body)
            self._send(http2.Frame(http2.DATA, http2.END_STREAM if last else 0, call.stream,
                                   body[at:at + size]).encode())
            at += size
            self._window -= size
            self._stream_window -= size
            if last:
                return

    def _remaining(self):
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise ConnectionLost(f"{self.address}: {NO_ANSWER}")
        return remaining

    def _send(self, data):
        try:
            self._socket.settimeout(self._remaining())
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionLost(f"{self.address}: {error}") from error

    def _receive(self):
        try:
            self._socket.settimeout(self._remaining())
            received = self._socket.recv(1 << 18)
        except TimeoutError as error:
            raise ConnectionLost(f"{self.address}: {NO_ANSWER}") from error
        except OSError as error:
            raise ConnectionLost(f"{self.address}: {error}") from error
        if not received:
            raise ConnectionLost(f"{self.address}: the connection was closed")
        try:
            for frame in self._frames.feed(received):
                self._handle(frame)
        except (http2.Http2Error, struct.error, protobuf.ProtobufError) as error:
            raise ConnectionLost(f"{self.address}: garbled: {error}") from error

    def _handle(self, frame):
        mine = self._call is not None and frame.stream == self._call.stream
        if frame.kind == http2.SETTINGS and not frame.flags & http2.ACK:
            settings = http2.parse_settings(frame.payload)
            initial = settings.get(http2.SETTINGS_INITIAL_WINDOW_SIZE, self._initial_window)
            self._stream_window += initial - self._initial_window
            self._initial_window = initial
            self._send(http2.Frame(http2.SETTINGS, http2.ACK, 0, b"").encode())
        elif frame.kind == http2.PING and not frame.flags & http2.ACK:
            self._send(http2.Frame(http2.PING, http2.ACK, 0, frame.payload).encode())
        elif frame.kind == http2.WINDOW_UPDATE:
            more = struct.unpack(">I", frame.payload)[0] & 0x7FFFFFFF
            if frame.stream == 0:
                self._window += more
            elif mine:
                self._stream_window += more
        elif frame.kind == http2.GOAWAY:
            self._going_away = True
        elif frame.kind in (http2.HEADERS, http2.CONTINUATION):
            self._headers(frame, mine)
        elif frame.kind == http2.DATA:
            self._data(frame, mine)
        elif frame.kind == http2.RST_STREAM and mine and not self._call.ended:
            raise ConnectionLost(f"{self.address}: the call was reset")

    def _headers(self, frame, mine):
        if frame.kind == http2.HEADERS:
            self._block_ends_stream = bool(frame.flags & http2.END_STREAM)
        self._block += frame.content() if frame.kind == http2.HEADERS else frame.payload
        if not frame.flags & http2.END_HEADERS:
            return
        fields = dict(self._decoder.decode(self._block))
        self._block = b""
        if mine:
            self._call.headers.update(fields)
            self._call.ended = self._block_ends_stream

    def _data(self, frame, mine):
        if frame.payload:
            update = struct.pack(">I", len(frame.payload))
            for stream in (0, frame.stream) if mine else (0,):
                self._send(http2.Frame(http2.WINDOW_UPDATE, 0, stream, update).encode())
        if mine:
            self._call.data += frame.content()
            self._call.ended = bool(frame.flags & http2.END_STREAM)
