"""The hot path to one shard: a long-lived stream of step operations, mended when it breaks.

Operations get the numbers 1, 2, 3, … of this client at the shard. After a break the stream asks
the shard which number it expects, and sends what has no answer again, unchanged and in order: the
shard applies nothing twice and repeats the answers that it had given.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import grpc

from dslide import errors
from dslide._io import run_blocking
from dslide._scatter import check_greeting
from dslide._transport import Peer, Settings, call_metadata, retry_pause
from dslide.errors import DataLossError, DeadlineExceededError, DslideError, InternalError
from dslide.v1 import common_pb2, shard_pb2

_TRANSIENT = ("RESOURCE_EXHAUSTED", "UNAVAILABLE", "ABORTED")


@dataclass
class _Sent:
    request: shard_pb2.StepRequest
    deadline: float
    held_before: bool = False


@dataclass
class _Connection:
    """One gRPC stream; its reader thread ends with it."""

    call: grpc.Call
    requests: queue.SimpleQueue[shard_pb2.StepRequest | None]
    answers: queue.SimpleQueue[shard_pb2.StepResponse | DslideError]
    written: int = 0  # of the unanswered ones, handed to this stream
    reader: threading.Thread | None = field(default=None, repr=False)


class ShardStream:
    """Operations are applied, and answered, in the order of `send`. One thread at a time."""

    def __init__(
        self, peer: Peer, settings: Settings, client_id: bytes, model: str, topology_version: int
    ) -> None:
        self._peer = peer
        self._settings = settings
        self._request_id = settings.request()  # of all its connections
        self._client_id = client_id
        self._model = model
        self._topology_version = topology_version
        self._generation = 0
        self._next_sequence = 1
        self._confirmed = 0
        self._unanswered: deque[_Sent] = deque()
        self._connection: _Connection | None = None
        self._last_resent = 0  # on this connection, the last that was held
        self._failure: InternalError | None = None  # of the whole stream, for good
        self.packed = False
        self.sparse = False
        self.reconnects = 0
        self._hello()
        self._connect()

    def send(self, step: int, first_open_step: int, **operation: Any) -> None:
        """Queues one operation; `receive` returns its answer, in order."""
        request = shard_pb2.StepRequest(step=step, first_open_step=first_open_step, **operation)
        first = (
            self._unanswered[0].request.envelope.sequence
            if self._unanswered
            else self._next_sequence
        )
        request.envelope.CopyFrom(
            common_pb2.RequestEnvelope(
                job=self._settings.job,
                client_id=self._client_id,
                sequence=self._next_sequence,
                first_incomplete=first,
                generation=self._generation,
                topology_version=self._topology_version,
                model=self._model,
            )
        )
        self._next_sequence += 1
        self._unanswered.append(_Sent(request, time.monotonic() + self._settings.timeout))
        self._write()

    def receive(self) -> shard_pb2.StepResponse:
        """The answer to the oldest operation that has none yet.

        Raises the shard's error; DeadlineExceededError or UnavailableError when it cannot be
        reached in time; DataLossError when it came back without updates that it had confirmed;
        InternalError, from then on, when it answers in another order than it was asked.
        """
        held = 0  # refused for the moment, from the front on
        resume_at = 0.0
        while True:
            if self._failure is not None:
                raise self._failure
            oldest = self._unanswered[0]
            if held and held >= (self._connection.written if self._connection else 0):
                time.sleep(max(0.0, resume_at - time.monotonic()))
                self._last_resent = self._unanswered[held - 1].request.envelope.sequence
                self._resend()
                held = 0
            if self._connection is None:
                self._mend(oldest.deadline)
                held = 0
            answer = self._next_answer(oldest.deadline)
            if isinstance(answer, DslideError):
                self._disconnect()
                if time.monotonic() >= oldest.deadline:
                    raise answer
                continue
            expected = self._unanswered[held].request.envelope.sequence
            # The repetition of an answer; of those that were held, the last one's may come late.
            if answer.sequence < expected or answer.sequence == self._last_resent != expected:
                continue
            if answer.sequence != expected:
                self._failure = InternalError(
                    f"{self._peer.name} answered request {answer.sequence} instead "
                    f"of {expected}: it does not keep the order",
                    applied=None,
                )
                self._disconnect()
                continue
            error = self._error_of(answer)
            if held == 0 and error is None:
                return self._take(answer)
            if held == 0 and error is not None:
                # A gap in front: an earlier request was refused for good and its number is free.
                # Sent again, this one gives that number up. A second gap means something else.
                gap = error.reason == "SEQUENCE_GAP"
                if self._needs_greeting(error) and not oldest.held_before:
                    oldest.held_before = True
                    self._disconnect()
                    continue
                again = error.code in _TRANSIENT or (gap and not oldest.held_before)
                resume_at = time.monotonic() + (0.0 if gap else retry_pause(error, 1))
                # Too late to be sent again: the shard's reason says more than silence at the
                # deadline.
                if not again or resume_at >= oldest.deadline:
                    self._unanswered.popleft()
                    assert self._connection is not None
                    self._connection.written -= 1
                    raise error
                oldest.held_before = True
            # What was sent behind it is refused for the gap, and sent again with it.
            held += 1

    def close(self) -> None:
        """Ends the stream and closes the client: the shard frees its contexts and answers."""
        self._disconnect()
        self._unanswered.clear()
        # A shard that is gone has nothing to forget.
        with contextlib.suppress(DslideError):
            run_blocking(
                self._peer.once(
                    "CloseClient",
                    shard_pb2.CloseClientRequest(job=self._settings.job, client_id=self._client_id),
                    5.0,
                )
            )

    # --- Inside ---------------------------------------------------------------------------------

    def _needs_greeting(self, error: DslideError) -> bool:
        """Whether a new stream, which begins with a greeting, is the remedy.

        Another process owns the shard now, or it does not know this client; one that had answers
        begins anew, as another client.
        """
        return error.reason == "STALE_GENERATION" or (
            error.reason == "UNKNOWN_CLIENT" and self._confirmed == 0
        )

    def _take(self, answer: shard_pb2.StepResponse) -> shard_pb2.StepResponse:
        self._confirmed = self._unanswered.popleft().request.envelope.sequence
        assert self._connection is not None
        self._connection.written -= 1
        return answer

    def _error_of(self, answer: shard_pb2.StepResponse) -> DslideError | None:
        if answer.WhichOneof("result") != "error":
            return None
        error = answer.error
        return errors.make_error(
            error.code,
            f"{self._peer.name}: {error.message}",
            error.reason,
            error.retry_after.ToTimedelta().total_seconds(),
            request_id=self._request_id,
        )

    def _write(self) -> None:
        connection = self._connection
        if connection is None:
            return
        for sent in list(self._unanswered)[connection.written :]:
            connection.requests.put(sent.request)
            connection.written += 1

    def _next_answer(self, deadline: float) -> shard_pb2.StepResponse | DslideError:
        assert self._connection is not None
        try:
            return self._connection.answers.get(timeout=max(0.001, deadline - time.monotonic()))
        except queue.Empty:
            return DeadlineExceededError(
                f"no answer from {self._peer.name} within {self._settings.timeout:g} s; "
                f"{self._peer.remedy} (request {self._request_id})",
                applied=None,
                request_id=self._request_id,
            )

    def _resend(self) -> None:
        """Sends again what was held; numbers given up are named by a higher first_incomplete."""
        first = self._unanswered[0].request.envelope.sequence
        for sent in self._unanswered:
            self._change_envelope(sent, first_incomplete=first)
        if self._connection is not None:
            self._connection.written = 0
            self._write()

    @staticmethod
    def _change_envelope(sent: _Sent, **fields: int) -> None:
        # The old message may be in gRPC's hands still: change a copy.
        request = shard_pb2.StepRequest()
        request.CopyFrom(sent.request)
        for name, value in fields.items():
            setattr(request.envelope, name, value)
        sent.request = request

    def _hello(self) -> None:
        hello: shard_pb2.HelloResponse = run_blocking(
            self._peer.once(
                "Hello",
                shard_pb2.HelloRequest(
                    job=self._settings.job,
                    client_id=self._client_id,
                    acknowledged_sequence=self._confirmed,
                ),
                min(5.0, self._settings.timeout),
            )
        )
        check_greeting(hello, self._next_sequence, self._confirmed, self._peer.name)
        self.packed = "packed-steps" in hello.capabilities
        self.sparse = "sparse-matrices" in hello.capabilities
        if hello.generation != self._generation:
            self._generation = hello.generation
            for sent in self._unanswered:
                self._change_envelope(sent, generation=hello.generation)

    def _mend(self, deadline: float) -> None:
        attempt = 0
        while True:
            attempt += 1
            try:
                self._hello()
                break
            except DataLossError:
                raise
            except DslideError as error:
                pause = retry_pause(error, attempt)
                if (
                    error.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
                    or time.monotonic() + pause >= deadline
                ):
                    raise
                time.sleep(pause)
        self.reconnects += 1
        self._connect()

    def _connect(self) -> None:
        requests: queue.SimpleQueue[shard_pb2.StepRequest | None] = queue.SimpleQueue()
        answers: queue.SimpleQueue[shard_pb2.StepResponse | DslideError] = queue.SimpleQueue()
        request_id = self._request_id
        call = self._peer.stub.Step(iter(requests.get, None), metadata=call_metadata(request_id))
        peer = self._peer

        def read() -> None:
            try:
                for answer in call:
                    answers.put(answer)
                answers.put(
                    errors.make_error(
                        "UNAVAILABLE", f"{peer.name}, Step: the shard ended the stream"
                    )
                )
            except grpc.RpcError as error:
                answers.put(errors.from_grpc(error, peer.name, "Step", peer.remedy, request_id))

        reader = threading.Thread(target=read, name=f"dslide {peer.name}", daemon=True)
        self._connection = _Connection(call, requests, answers, reader=reader)
        self._last_resent = 0
        reader.start()
        self._write()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.requests.put(None)
        connection.call.cancel()
        if connection.reader is not None:
            connection.reader.join()
