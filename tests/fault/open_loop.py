"""Calls that come at a rate of their own, whether the server keeps up or not.

Many connections, up to 64 calls on each: what a crowd of clients does that do not wait for each
other. A call that has no answer within its timeout is given up.
"""

from __future__ import annotations

import asyncio
import collections
import time

import grpc.aio
from google.protobuf.message import Message
from grpc_client import OPTIONS

STREAMS = 64
# Of the counts, beside the names of statuses.
GIVEN_UP, NO_PLACE = "given up", "no place"


class OpenLoop:
    """Makes the same call again and again."""

    def __init__(self, address: str, method: str, message: Message, connections: int,
                 timeout: float) -> None:
        self._address, self._method, self._message = address, method, message.SerializeToString()
        self._connections, self._timeout = connections, timeout
        self._counts: collections.Counter[str] = collections.Counter()
        self._under_way: set[asyncio.Task[None]] = set()

    def run(self, seconds: float, rate: float | None = None,
            at_once: int = 0) -> collections.Counter[str]:
        """{name of a status, GIVEN_UP or NO_PLACE: how many}.

        rate     calls begun per second; or
        at_once  calls under way at one time: a closed loop
        """
        return asyncio.run(self._run(seconds, rate, at_once))

    async def _run(self, seconds: float, rate: float | None,
                   at_once: int) -> collections.Counter[str]:
        channels = [grpc.aio.insecure_channel(self._address, options=OPTIONS)
                    for _ in range(self._connections)]
        calls: list[grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = [
            channel.unary_unary(self._method) for channel in channels]
        begun, started = 0, time.monotonic()
        while (now := time.monotonic()) < started + seconds:
            due = (int((now - started) * rate) - begun if rate is not None
                   else at_once - len(self._under_way))
            for _ in range(due):
                begun += 1
                if len(self._under_way) < STREAMS * len(calls):
                    task = asyncio.create_task(self._call(calls[begun % len(calls)]))
                    self._under_way.add(task)
                    task.add_done_callback(self._under_way.discard)
                else:
                    self._counts[NO_PLACE] += 1
            await asyncio.sleep(0.002)
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        for channel in channels:
            await channel.close()
        return self._counts

    async def _call(self, call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]) -> None:
        try:
            await call(self._message, timeout=self._timeout)
            self._counts["OK"] += 1
        except grpc.aio.AioRpcError as error:
            late = error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            self._counts[GIVEN_UP if late else error.code().name] += 1
