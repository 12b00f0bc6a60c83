"""Channels and single calls: addresses, encryption, deadlines, errors, bounded repetition."""

from __future__ import annotations

import ipaddress
import itertools
import os
import random
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import grpc

from dslide import errors
from dslide._io import Io
from dslide._version import __version__

# Messages are at most 4 MiB by the protocol; the margin is for what is around bulk fields.
MAX_MESSAGE_BYTES = (4 << 20) + (64 << 10)
_OPTIONS = [
    ("SingleThreadedUnaryStream", 1),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.http2.lookahead_bytes", 16 << 20),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 30000),
    ("grpc.keepalive_timeout_ms", 10000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 3000),
    ("grpc.max_reconnect_backoff_ms", 2000),
]
LONG_TIMEOUT = 3600.0  # seconds, of calls that write or read all rows
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


def call_metadata(request_id: str) -> tuple[tuple[str, str], ...]:
    """What every call sends beside its request."""
    return ("dslide-client", f"python/{__version__}"), ("x-request-id", request_id)


@dataclass(frozen=True)
class Tls:
    """Files (PEM) of an encrypted connection.

    ca : authorities of the servers; None: those of the system
    cert, key : this client's own certificate and key, for clusters that ask for one
    """

    ca: str | os.PathLike[str] | None = None
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        if (self.cert is None) != (self.key is None):
            raise errors.InvalidArgumentError("tls.cert and tls.key belong together: give both")
        return grpc.ssl_channel_credentials(
            _pem("ca", self.ca), _pem("key", self.key), _pem("cert", self.cert)
        )


def _pem(field: str, path: str | os.PathLike[str] | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise errors.InvalidArgumentError(
            f"tls.{field}: cannot read {os.fspath(path)}: {error.strerror}"
        ) from None
    if b"-----BEGIN" not in data:
        raise errors.InvalidArgumentError(f"tls.{field}: {os.fspath(path)} is no PEM file")
    return data


def _stays_here(address: str) -> bool:
    """Whether a connection does not leave this machine."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address.rpartition(":")[0]
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check_address(address: str, encrypted: bool, insecure: bool) -> None:
    host, colon, port = address.rpartition(":")
    if not address.startswith(("unix:", "unix-abstract:")) and (
        not colon or not host or not port.isdigit() or not 0 < int(port) < 65536
    ):
        raise errors.InvalidArgumentError(
            f"address {address!r} is not host:port (for example 127.0.0.1:7000) or unix:PATH"
        )
    if not encrypted and not insecure and not _stays_here(address):
        raise errors.InvalidArgumentError(
            f"{address!r} is another machine and the connection would not be encrypted: pass "
            "tls=dslide.Tls(ca=…, cert=…, key=…), or insecure=True to accept that on a network "
            "you trust"
        )


@dataclass(frozen=True)
class Settings:
    """How a client calls. All in seconds."""

    tls: Tls | None = None
    insecure: bool = False
    timeout: float = 30.0  # the deadline of every call
    patience: float = 4.0  # how long a call is repeated while nobody answers
    job: str = "default"
    request_id: str = ""  # of every call; "": a new one for each

    def __post_init__(self) -> None:
        if self.request_id and not re.fullmatch("[!-~]{1,64}", self.request_id):
            raise errors.InvalidArgumentError(
                f"request_id {self.request_id!r} is not 1 to 64 visible ASCII characters"
            )

    def request(self) -> str:
        """The id of the next call."""
        return self.request_id or os.urandom(8).hex()


def retry_pause(error: errors.DslideError, attempt: int) -> float:
    """Seconds before repetition `attempt` (from 1): what the server asks, or growing and spread."""
    if error.retry_after > 0:
        return error.retry_after
    nominal = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempt - 1, 30))
    return float(nominal * random.uniform(0.5, 1.0))


class Peer:
    """One server: a channel, its methods, and calls with everything around them."""

    def __init__(
        self,
        io: Io,
        settings: Settings,
        address: str,
        name: str,
        remedy: str,
        stub: Callable[[Any], Any],
    ) -> None:
        _check_address(address, settings.tls is not None, settings.insecure)
        credentials = None if settings.tls is None else settings.tls.credentials()
        self.address = address
        self.name = f"{name} at {address}"
        # No proxy of the environment knows this machine's own addresses.
        own = [("grpc.enable_http_proxy", 0)] if _stays_here(address) else []
        self.channel = io.channel(address, credentials, _OPTIONS + own)
        self.stub = stub(self.channel)
        self.remedy = remedy
        self._io = io
        self._settings = settings

    async def close(self) -> None:
        await self._io.close(self.channel)

    def _wrap(self, error: grpc.RpcError, method: str, request_id: str) -> errors.DslideError:
        return errors.from_grpc(error, self.name, method, self.remedy, request_id)

    async def once(self, method: str, request: Any, timeout: float) -> Any:
        """One attempt of a unary call."""
        request_id = self._settings.request()
        try:
            return await self._io.unary(
                getattr(self.stub, method), request, timeout, call_metadata(request_id)
            )
        except grpc.RpcError as error:
            raise self._wrap(error, method, request_id) from None

    async def call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """A call that is safe to repeat: again after UNAVAILABLE, for as long as is patient."""

        async def attempt(left: float) -> Any:
            return await self.once(method, request, left)

        return await self.repeat(attempt, self._settings.timeout if timeout is None else timeout)

    async def download(
        self, method: str, callable_: Any, request: Any, on_message: Callable[[Any], None]
    ) -> None:
        """One attempt of a call whose answer is a stream."""
        request_id = self._settings.request()
        try:
            await self._io.download(
                callable_, request, self._settings.timeout, call_metadata(request_id), on_message
            )
        except grpc.RpcError as error:
            raise self._wrap(error, method, request_id) from None

    async def upload(
        self, method: str, callable_: Any, requests: Iterable[Any], timeout: float
    ) -> Any:
        """One attempt of a call whose request is a stream."""
        request_id = self._settings.request()
        try:
            return await self._io.upload(callable_, requests, timeout, call_metadata(request_id))
        except grpc.RpcError as error:
            raise self._wrap(error, method, request_id) from None

    async def repeat(self, attempt: Callable[[float], Any], timeout: float) -> Any:
        """Awaits attempt(seconds left), again after UNAVAILABLE, for as long as is patient."""
        start = time.monotonic()
        why: errors.DslideError | None = None
        for number in itertools.count(1):
            try:
                return await attempt(max(timeout - (time.monotonic() - start), 0.001))
            except errors.DeadlineExceededError as error:
                raise why or error from None
            except errors.UnavailableError as error:
                why = error
            pause = retry_pause(why, number)
            if time.monotonic() - start + pause >= min(timeout, self._settings.patience):
                raise why
            await self._io.sleep(pause)
