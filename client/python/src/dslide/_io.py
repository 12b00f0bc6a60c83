"""How operations reach the network: one set of coroutines, run by asyncio or without any loop.

What the client does is written once, as coroutines that await the functions of an `Io`. Under
`AsyncIo` they suspend as usual. Under `BlockingIo` no await ever suspends, so a coroutine runs from
its start to its end when it is first resumed: see `run_blocking`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio

T = TypeVar("T")
Metadata = tuple[tuple[str, str], ...]


class Io(Protocol):
    """Calls, pauses and locks. Errors of calls are those of gRPC (grpc.RpcError)."""

    def channel(
        self,
        address: str,
        credentials: grpc.ChannelCredentials | None,
        options: list[tuple[str, int]],
    ) -> Any: ...
    async def close(self, channel: Any) -> None: ...
    async def unary(self, method: Any, request: Any, timeout: float, metadata: Metadata) -> Any: ...
    async def download(
        self,
        method: Any,
        request: Any,
        timeout: float,
        metadata: Metadata,
        on_message: Callable[[Any], None],
    ) -> None: ...
    async def upload(
        self, method: Any, requests: Iterable[Any], timeout: float, metadata: Metadata
    ) -> Any: ...
    async def sleep(self, seconds: float) -> None: ...
    async def gather(self, parts: list[Coroutine[Any, Any, T]]) -> list[T]: ...
    def lock(self) -> contextlib.AbstractAsyncContextManager[None]: ...
    async def finish(self) -> None: ...


class BlockingIo:
    """Every await returns at once, having blocked the thread. Thread-safe."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._mutex = threading.Lock()
        self._lock = threading.Lock()

    def channel(
        self,
        address: str,
        credentials: grpc.ChannelCredentials | None,
        options: list[tuple[str, int]],
    ) -> Any:
        if credentials is None:
            return grpc.insecure_channel(address, options=options)
        return grpc.secure_channel(address, credentials, options=options)

    async def close(self, channel: Any) -> None:
        channel.close()

    async def unary(self, method: Any, request: Any, timeout: float, metadata: Metadata) -> Any:
        return method(request, timeout=timeout, metadata=metadata)

    async def download(
        self,
        method: Any,
        request: Any,
        timeout: float,
        metadata: Metadata,
        on_message: Callable[[Any], None],
    ) -> None:
        call = method(request, timeout=timeout, metadata=metadata)
        try:
            for message in call:
                on_message(message)
        except BaseException:
            call.cancel()
            raise

    async def upload(
        self, method: Any, requests: Iterable[Any], timeout: float, metadata: Metadata
    ) -> Any:
        return method(iter(requests), timeout=timeout, metadata=metadata)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def gather(self, parts: list[Coroutine[Any, Any, T]]) -> list[T]:
        if len(parts) < 2:
            return [run_blocking(part) for part in parts]
        with self._mutex:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(64, thread_name_prefix="dslide")
            threads = self._threads
        futures = [threads.submit(run_blocking, part) for part in parts]
        concurrent.futures.wait(futures)  # every part ends before this call does
        return [future.result() for future in futures]

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        with self._lock:
            yield

    async def finish(self) -> None:
        with self._mutex:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()


class AsyncIo:
    """For one event loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    def channel(
        self,
        address: str,
        credentials: grpc.ChannelCredentials | None,
        options: list[tuple[str, int]],
    ) -> Any:
        if credentials is None:
            return grpc.aio.insecure_channel(address, options=options)
        return grpc.aio.secure_channel(address, credentials, options=options)

    async def close(self, channel: Any) -> None:
        await channel.close()

    async def unary(self, method: Any, request: Any, timeout: float, metadata: Metadata) -> Any:
        return await method(request, timeout=timeout, metadata=metadata)

    async def download(
        self,
        method: Any,
        request: Any,
        timeout: float,
        metadata: Metadata,
        on_message: Callable[[Any], None],
    ) -> None:
        call = method(request, timeout=timeout, metadata=metadata)
        try:
            async for message in call:
                on_message(message)
        except BaseException:
            call.cancel()
            raise

    async def upload(
        self, method: Any, requests: Iterable[Any], timeout: float, metadata: Metadata
    ) -> Any:
        return await method(iter(requests), timeout=timeout, metadata=metadata)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def gather(self, parts: list[Coroutine[Any, Any, T]]) -> list[T]:
        results = await asyncio.gather(*parts, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results  # type: ignore[return-value]

    @contextlib.asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        async with self._lock:
            yield

    async def finish(self) -> None:
        pass


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that only awaits what a BlockingIo gives it."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    coroutine.close()
    raise AssertionError("a coroutine of a blocking client has suspended")


def chunked(total: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover [0, total)."""
    for first in range(0, total, size):
        yield slice(first, min(first + size, total))
