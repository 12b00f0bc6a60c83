"""The scatters of one client to one shard, one at a time and each exactly once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dslide import bulk
from dslide._io import Io, chunked
from dslide._transport import Peer, Settings, retry_pause
from dslide.errors import DataLossError, DslideError, ResourceExhaustedError, UnavailableError
from dslide.v1 import shard_pb2

F32 = npt.NDArray[np.float32]
_CHUNK_BYTES = 1 << 20
# The shard was restarted since the last greeting, or does not know this client yet.
_STALE = ("STALE_GENERATION", "UNKNOWN_CLIENT")


def check_greeting(
    hello: shard_pb2.HelloResponse, next_sequence: int, confirmed: int, peer: str
) -> None:
    """Refuses a shard that has lost what it had confirmed, or knows what was never sent."""
    if hello.next_sequence <= confirmed or hello.next_sequence > next_sequence + 1:
        raise DataLossError(
            f"{peer} expects update {hello.next_sequence} of this client, but {confirmed} were "
            "confirmed: it was restarted and has lost updates; restore a checkpoint and start the "
            "training again",
            reason="LOST_UPDATES",
        )


class ScatterQueue:
    """Numbers the scatters; when an answer is lost, asks the shard which number it expects next.

    So "unknown" becomes "applied" or is sent again. One caller at a time.
    """

    def __init__(
        self, io: Io, peer: Peer, settings: Settings, client_id: bytes, topology_version: int
    ) -> None:
        self._io = io
        self._peer = peer
        self._settings = settings
        self._client_id = client_id
        self._topology_version = topology_version
        self._sequence = 1  # of the next one
        self._generation = 0
        self._settled = False  # whether both are what the shard believes
        self._call = peer.channel.stream_unary(
            "/dslide.v1.ShardService/Scatter",
            request_serializer=None,
            response_deserializer=shard_pb2.ScatterResponse.FromString,
        )

    async def close(self) -> None:
        """Closes the client at the shard, if that has heard of it."""
        if self._generation == 0:
            return
        # A shard that is gone has nothing to forget.
        with contextlib.suppress(DslideError):
            await self._peer.once(
                "CloseClient",
                shard_pb2.CloseClientRequest(job=self._settings.job, client_id=self._client_id),
                5.0,
            )

    async def apply(
        self,
        head: shard_pb2.ScatterRequest,
        ids: npt.NDArray[np.int64],
        values: F32,
        biases: F32 | None,
    ) -> None:
        """Sends one scatter until it is applied, refused, or the time is over.

        `head` has the table, the mode and the model. An error's `applied` is None when nobody
        knows.
        """
        start = time.monotonic()
        if not self._settled:
            # Resolves an earlier scatter of unknown fate, too: its number is used or free.
            await self._settle()
        attempt = 0
        while True:
            attempt += 1
            left = self._settings.timeout - (time.monotonic() - start)
            try:
                await self._peer.upload(
                    "Scatter",
                    self._call,
                    self._messages(head, ids, values, biases),
                    max(left, 0.001),
                )
                self._sequence += 1
                return
            except DslideError as error:
                # A number whose fate is unknown may not be given to another scatter.
                self._settled = False
                busy = error.applied is False and isinstance(
                    error, (ResourceExhaustedError, UnavailableError)
                )
                if error.applied is False and not busy and error.reason not in _STALE:
                    raise
                pause = retry_pause(error, attempt)
                limit = (
                    self._settings.timeout
                    if busy
                    else min(self._settings.timeout, self._settings.patience)
                )
                if time.monotonic() - start + pause >= limit:
                    raise
                await self._io.sleep(pause)
                if not busy:
                    await self._greet_again()

    def _messages(
        self,
        head: shard_pb2.ScatterRequest,
        ids: npt.NDArray[np.int64],
        values: F32,
        biases: F32 | None,
    ) -> Iterator[bytes]:
        for some in chunked(len(ids), max(1, _CHUNK_BYTES // (4 * values.shape[1]))):
            message = shard_pb2.ScatterRequest()
            if some.start == 0:
                message.CopyFrom(head)
                message.total_rows = len(ids)
                envelope = message.envelope
                envelope.job = self._settings.job
                envelope.client_id = self._client_id
                envelope.sequence = envelope.first_incomplete = self._sequence
                envelope.generation = self._generation
                envelope.topology_version = self._topology_version
            yield bulk.scatter_message(
                message, ids[some], values[some], None if biases is None else biases[some]
            )

    async def _greet(self) -> shard_pb2.HelloResponse:
        hello: shard_pb2.HelloResponse = await self._peer.call(
            "Hello",
            shard_pb2.HelloRequest(
                job=self._settings.job,
                client_id=self._client_id,
                acknowledged_sequence=self._sequence - 1,
            ),
        )
        check_greeting(hello, self._sequence, self._sequence - 1, self._peer.name)
        self._generation = hello.generation
        return hello

    async def _settle(self) -> None:
        self._sequence = (await self._greet()).next_sequence
        self._settled = True

    async def _greet_again(self) -> None:
        """Before the same scatter again: when it was applied, that gets its answer."""
        try:
            await self._greet()
        except DataLossError:
            raise
        except DslideError:
            pass  # the shard is not back yet
