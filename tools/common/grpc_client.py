"""Calls that are exact about what became of them.

grpcio gives a broken connection the same status as an answer, and the difference is what the fault
tests are about. Here a call returns the server's answer, raises CallFailed with the server's own
error, or raises ConnectionLost: then nobody knows whether it was applied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Self, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from processes import PATIENCE_SECONDS

# Of any message: without fields it is the question for the whole server.
HEALTH = "/grpc.health.v1.Health/Check"
# Of a call whose time is over, and which nothing else has befallen.
NO_ANSWER = "no answer in time"
OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0),
           ("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1),
           ("grpc.ssl_target_name_override", "localhost"))
# What grpcio says of a connection, or of bytes that it cannot read, when the server has not spoken.
_NOT_THE_SERVERS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED,
                    grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL,
                    grpc.StatusCode.UNKNOWN)
_Answer = TypeVar("_Answer", bound=Message)
_Said = TypeVar("_Said")


class ConnectionLost(RuntimeError):
    """The call has no answer: it may have been applied, or not."""


@dataclasses.dataclass(eq=False)
class CallFailed(RuntimeError):
    """The server's own error, where the caller needs a result."""

    what: str
    code: grpc.StatusCode
    reason: str  # a word of docs/operate/errors.md, "" without one
    text: str

    def __str__(self) -> str:
        return f"{self.what}: {self.code.name} {self.reason} {self.text}".strip()


def _reason_word(error: grpc.Call) -> str:
    """The reason of the google.rpc.ErrorInfo in the trailers, "" without one."""
    status = status_pb2.Status()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status.MergeFromString(value if isinstance(value, bytes) else value.encode())
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info):
            return str(info.reason)
    return ""


def method_of(request: Message) -> str:
    """The path of the method whose request this is; its file has one service."""
    service, = request.DESCRIPTOR.file.services_by_name.values()
    return f"/{service.full_name}/{request.DESCRIPTOR.name.removesuffix('Request')}"


class Connection:
    """A channel of its own to HOST:PORT, which connects with the first call; a context manager.

    Not thread-safe.
    """

    def __init__(self, address: str, tls: grpc.ChannelCredentials | None = None) -> None:
        self.address = address
        self._channel = (grpc.insecure_channel(address, OPTIONS) if tls is None
                         else grpc.secure_channel(address, tls, OPTIONS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def call(self, request: Message, answer: type[_Answer],
             timeout: float = PATIENCE_SECONDS) -> _Answer:
        """The answer to a unary call, or to one whose stream of requests has one message.

        After ConnectionLost the connection must not be used any more.
        """
        method = method_of(request)
        call: grpc.UnaryUnaryMultiCallable[Any, _Answer] = self._channel.unary_unary(
            method, type(request).SerializeToString, answer.FromString)
        return self._said(method, lambda: call(request, timeout=timeout))

    def call_stream(self, request: Message, answer: type[_Answer],
                    timeout: float = PATIENCE_SECONDS) -> list[_Answer]:
        """All answers to a call with one request."""
        method = method_of(request)
        call: grpc.UnaryStreamMultiCallable[Any, _Answer] = self._channel.unary_stream(
            method, type(request).SerializeToString, answer.FromString)
        return self._said(method, lambda: list(call(request, timeout=timeout)))

    def call_bytes(self, method: str, request: bytes, timeout: float = PATIENCE_SECONDS) -> bytes:
        """call() of a method by its path with encoded messages."""
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        return self._said(method, lambda: call(request, timeout=timeout))

    def _said(self, method: str, call: Callable[[], _Said]) -> _Said:
        try:
            return call()
        except grpc.RpcError as error:
            assert isinstance(error, grpc.Call)
            code, reason, text = error.code(), _reason_word(error), error.details() or ""
            if not reason and code in _NOT_THE_SERVERS:
                why = NO_ANSWER if code == grpc.StatusCode.DEADLINE_EXCEEDED else text
                raise ConnectionLost(f"{self.address}: {why}") from error
            raise CallFailed(method.rpartition("/")[2], code, reason, text) from error
