"""What goes wrong, as exceptions that keep what the server said.

`docs/operate/errors.md` says for each code and reason word what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc

from dslide import _fields


class DslideError(Exception):
    """A call failed.

    Attributes
    ----------
    code : the canonical status code, for example "NOT_FOUND"
    reason : the reason word, for example "UNKNOWN_MODEL"; "" where there is none
    retry_after : seconds after which the server wants the same request again; 0 where it does not
    applied : of a mutation: False when it is certain that nothing changed, None when it is unknown
    request_id : by which the call is found in the server's log; "" where there was no call

    The text names the thing, the value and the remedy.
    """

    code = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        retry_after: float = 0.0,
        applied: bool | None = False,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after
        self.applied = applied
        self.request_id = request_id

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions travel between processes; keyword arguments would be lost on the way.
        return _rebuilt, (type(self), str(self), vars(self))


def _rebuilt(kind: type[DslideError], message: str, attributes: dict[str, Any]) -> DslideError:
    error = kind(message)
    vars(error).update(attributes)
    return error


class InvalidArgumentError(DslideError, ValueError):
    """The request is wrong: fix it."""

    code = "INVALID_ARGUMENT"


class NotFoundError(DslideError, LookupError):
    """There is no such thing: create it first."""

    code = "NOT_FOUND"


class AlreadyExistsError(DslideError):
    """Another one has this name."""

    code = "ALREADY_EXISTS"


class FailedPreconditionError(DslideError):
    """What the client believes of the cluster is not so (any more)."""

    code = "FAILED_PRECONDITION"


class PermissionDeniedError(DslideError):
    """The certificate's role, or its jobs, do not allow the call."""

    code = "PERMISSION_DENIED"


class UnauthenticatedError(DslideError):
    """The server does not know who is calling."""

    code = "UNAUTHENTICATED"


class ResourceExhaustedError(DslideError):
    """The server is too busy, or out of memory or disk."""

    code = "RESOURCE_EXHAUSTED"


class UnavailableError(DslideError, ConnectionError):
    """Nobody answers, or the server is stopping."""

    code = "UNAVAILABLE"


class DeadlineExceededError(DslideError, TimeoutError):
    """No answer in time."""

    code = "DEADLINE_EXCEEDED"


class AbortedError(DslideError):
    """The first attempt is still running, or another operation is."""

    code = "ABORTED"


class DataLossError(DslideError):
    """Confirmed updates, or a part of a checkpoint, are gone."""

    code = "DATA_LOSS"


class UnimplementedError(DslideError):
    """The server is of a version that does not know the call."""

    code = "UNIMPLEMENTED"


class InternalError(DslideError):
    """A peer broke the protocol."""

    code = "INTERNAL"


_CLASSES: dict[str, type[DslideError]] = {
    kind.code: kind
    for kind in (
        InvalidArgumentError,
        NotFoundError,
        AlreadyExistsError,
        FailedPreconditionError,
        PermissionDeniedError,
        UnauthenticatedError,
        ResourceExhaustedError,
        UnavailableError,
        DeadlineExceededError,
        AbortedError,
        DataLossError,
        UnimplementedError,
        InternalError,
    )
}
_CODE_NAMES: dict[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}
# Answers of the server's program, never of the transport: they prove that nothing changed.
_REFUSALS = frozenset(
    {
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "FAILED_PRECONDITION",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
    }
)


def make_error(
    code: str | int,
    message: str,
    reason: str = "",
    retry_after: float = 0.0,
    request_id: str = "",
) -> DslideError:
    """The exception of a status; its text ends with the request's id where there is one."""
    if request_id:
        message += f" (request {request_id})"
    name = _CODE_NAMES.get(code, "UNKNOWN") if isinstance(code, int) else code
    proven = name in _REFUSALS or (name in ("RESOURCE_EXHAUSTED", "UNAVAILABLE") and reason != "")
    kind = _CLASSES.get(name, DslideError)
    error = kind(
        message,
        reason=reason,
        retry_after=retry_after,
        applied=False if proven else None,
        request_id=request_id,
    )
    error.code = name
    return error


def _details(trailer: bytes) -> Iterator[tuple[str, bytes]]:
    """The details of a google.rpc.Status: (name of the message, its bytes)."""
    for number, value in _fields.read(trailer):
        if number != 3 or not isinstance(value, memoryview):
            continue
        any_fields = dict(_fields.read(value))
        url, body = any_fields.get(1, b""), any_fields.get(2, b"")
        if isinstance(url, int) or isinstance(body, int):
            continue
        yield bytes(url).decode(errors="replace").rsplit("/", 1)[-1], bytes(body)


def _what_is_said(trailer: bytes) -> tuple[str, float, str]:
    """The reason word, the pause in seconds and the request's id; empty or 0 where absent."""
    reason, pause, request_id = "", 0.0, ""
    for name, body in _details(trailer):
        fields = dict(_fields.read(body))
        if name == "google.rpc.ErrorInfo":
            word, domain = fields.get(1, b""), fields.get(2, b"")
            if (
                not isinstance(word, int)
                and not isinstance(domain, int)
                and bytes(domain) == b"dslide"
            ):
                reason = bytes(word).decode(errors="replace")
        elif name == "google.rpc.RequestInfo":
            said = fields.get(1, b"")
            if not isinstance(said, int):
                request_id = bytes(said).decode(errors="replace")
        elif name == "google.rpc.RetryInfo":
            delay = fields.get(1, b"")
            if not isinstance(delay, int):
                duration = dict(_fields.read(delay))
                seconds, nanos = duration.get(1, 0), duration.get(2, 0)
                if isinstance(seconds, int) and isinstance(nanos, int) and seconds <= 3600:
                    pause = seconds + nanos * 1e-9
    return reason, pause, request_id


_HANDSHAKE_SIGNS = ("Socket closed", "andshake", "Hostname Verification", "CERTIFICATE_VERIFY")
_SILENCE_SIGNS = ("failed to connect", "DNS resolution failed", "Deadline Exceeded")


def nobody_answered(message: str) -> bool:
    """Whether the transport, not the server, wrote the text of an error."""
    return message.startswith(_SILENCE_SIGNS)


def from_grpc(
    error: grpc.RpcError, peer: str, method: str, remedy: str, request_id: str
) -> DslideError:
    """The exception of a failed call to `peer`; `remedy` is for when nobody answers."""
    code = error.code().name
    text = error.details() or ""
    reason, pause = "", 0.0
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            reason, pause, answered = _what_is_said(value)
            request_id = answered or request_id
    message = f"{peer}, {method}: {text}"
    if not reason and nobody_answered(text):
        # Of TCP is what takes longer than an attempt may, on a busy machine.
        if any(sign in text for sign in _HANDSHAKE_SIGNS) and "tcp handshaker" not in text:
            message += (
                " (the handshake failed: check tls.ca, tls.cert and tls.key, and what the "
                "server was started with)"
            )
        message += f"; {remedy}"
    # This side takes no call back, so the server did: it stops, and its successor may be asked.
    shown = "UNAVAILABLE" if code == "CANCELLED" else code
    return make_error(shown, message, reason, pause, request_id)
