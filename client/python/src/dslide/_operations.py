"""Operations of the coordinator, which take as long as disks do; and lists, which come in pages."""

from __future__ import annotations

import time
from typing import Any

from dslide._connection import Connection
from dslide._transport import LONG_TIMEOUT
from dslide.errors import DeadlineExceededError, NotFoundError, UnavailableError, make_error
from dslide.v1 import coordinator_pb2

_TURN = 30  # seconds for which one question waits for the end
_PAUSE = 0.2  # seconds after an answer that came too early


async def finish(connection: Connection, method: str, request: Any) -> coordinator_pb2.Operation:
    """Starts an operation and waits for its end; again when its coordinator is gone."""
    deadline = time.monotonic() + LONG_TIMEOUT

    async def attempt(_: float) -> coordinator_pb2.Operation:
        operation = (await connection.coordinator.call(method, request)).operation
        while not operation.done:
            if time.monotonic() >= deadline:
                await _cancel(connection, method, operation)
            operation = await _look(connection, operation)
        if operation.HasField("error"):
            error = operation.error
            raise make_error(
                error.code,
                f"{connection.coordinator.name}, {method}: {error.message} "
                f"(operation {operation.operation_id})",
                error.reason,
                error.retry_after.ToTimedelta().total_seconds(),
            )
        done: coordinator_pb2.Operation = operation
        return done

    ended: coordinator_pb2.Operation = await connection.coordinator.repeat(attempt, LONG_TIMEOUT)
    return ended


async def _look(connection: Connection, operation: Any) -> Any:
    request = coordinator_pb2.GetOperationRequest(operation_id=operation.operation_id)
    request.wait.seconds = _TURN
    timeout = _TURN + connection.settings.timeout
    asked = time.monotonic()
    try:
        answer = await connection.coordinator.call("GetOperation", request, timeout)
    except NotFoundError as error:  # the coordinator was restarted: the work may be repeated
        raise UnavailableError(str(error), reason=error.reason) from None
    if not answer.operation.done and time.monotonic() - asked < _TURN:
        await connection.io.sleep(_PAUSE)
    return answer.operation


async def _cancel(connection: Connection, method: str, operation: Any) -> None:
    request = coordinator_pb2.CancelOperationRequest(operation_id=operation.operation_id)
    await connection.coordinator.call("CancelOperation", request)
    raise DeadlineExceededError(
        f"{connection.coordinator.name}, {method}: it still ran after {LONG_TIMEOUT:.0f} s and was "
        "told to end"
    )


async def list_operations(connection: Connection) -> list[coordinator_pb2.Operation]:
    """Operations that run, and the last that ended; the newest first."""
    pages = await all_pages(connection, "ListOperations", coordinator_pb2.ListOperationsRequest())
    return [operation for page in pages for operation in page.operations]


async def cancel_operation(connection: Connection, operation_id: str) -> coordinator_pb2.Operation:
    """Asks an operation to end, and does not wait for that. NotFoundError: there is none."""
    response = await connection.coordinator.call(
        "CancelOperation", coordinator_pb2.CancelOperationRequest(operation_id=operation_id)
    )
    cancelled: coordinator_pb2.Operation = response.operation
    return cancelled


async def all_pages(connection: Connection, method: str, request: Any) -> list[Any]:
    """The answers of a list's call, one a page."""
    pages = []
    while True:
        pages.append(await connection.coordinator.call(method, request))
        if not pages[-1].next_page_token:
            return pages
        request.page_token = pages[-1].next_page_token
