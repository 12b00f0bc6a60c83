"""Clients of `dslide serve`, which answers predictions of one model.

with dslide.serving.connect("127.0.0.1:7030") as server:
    print(server.predict(texts=["a web server written in C"], k=5)[0].names)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from dslide import _serving
from dslide._io import AsyncIo, BlockingIo, run_blocking
from dslide._serving import Prediction
from dslide._transport import Peer, Settings, Tls

__all__ = [
    "AsyncPredictionClient",
    "Prediction",
    "PredictionClient",
    "connect",
    "connect_async",
]

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    operation: Callable[Concatenate[Peer, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[PredictionClient, P], T]:
    @functools.wraps(operation)
    def method(self: PredictionClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(operation(self.peer, *args, **kwargs))

    return method


def _awaited(
    operation: Callable[Concatenate[Peer, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AsyncPredictionClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(operation)
    async def method(self: AsyncPredictionClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await operation(self.peer, *args, **kwargs)

    return method


class PredictionClient:
    """One server of predictions. Made by `connect`. Thread-safe; not to be used after a fork."""

    def __init__(self, address: str, settings: Settings) -> None:
        self.peer = _serving.open_peer(BlockingIo(), address, settings)

    def __enter__(self) -> PredictionClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    predict = _blocking(_serving.predict)
    describe = _blocking(_serving.describe)
    close = _blocking(Peer.close)


class AsyncPredictionClient:
    """The same for one event loop. Made by `connect_async`."""

    def __init__(self, address: str, settings: Settings) -> None:
        self._address = address
        self._settings = settings
        self._peer: Peer | None = None

    @property
    def peer(self) -> Peer:
        if self._peer is None:
            raise RuntimeError("not connected: use `async with connect_async(…) as server`")
        return self._peer

    async def __aenter__(self) -> AsyncPredictionClient:
        self._peer = _serving.open_peer(AsyncIo(), self._address, self._settings)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    predict = _awaited(_serving.predict)
    describe = _awaited(_serving.describe)
    close = _awaited(Peer.close)


def connect(
    address: str = "127.0.0.1:7030",
    *,
    tls: Tls | None = None,
    timeout: float = 30.0,
    patience: float = 4.0,
    insecure: bool = False,
    request_id: str = "",
) -> PredictionClient:
    """A client of the server at `address`; the other parameters are those of `dslide.connect`.

    Connects with the first call. Raises InvalidArgumentError for what is no address.
    """
    return PredictionClient(
        address,
        Settings(
            tls=tls, insecure=insecure, timeout=timeout, patience=patience, request_id=request_id
        ),
    )


def connect_async(
    address: str = "127.0.0.1:7030",
    *,
    tls: Tls | None = None,
    timeout: float = 30.0,
    patience: float = 4.0,
    insecure: bool = False,
    request_id: str = "",
) -> AsyncPredictionClient:
    """As `connect`, for an `async with`."""
    return AsyncPredictionClient(
        address,
        Settings(
            tls=tls, insecure=insecure, timeout=timeout, patience=patience, request_id=request_id
        ),
    )
