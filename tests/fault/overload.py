"""Ten times the work that a shard can do, for a while: it refuses, answers, and keeps its size.

Open-loop generators ask a shard for the best rows of a large table, exactly: cheap to ask, dear to
answer. First its capacity is measured, with a few calls at once; then calls come at `times` that
rate, whatever becomes of them, while somebody asks for its health. Promised under load: memory that
does not grow (less than 1 MiB a minute, after a third of the time), four fifths of the capacity in
answers that come in time, and health within 100 ms (p99). The generators share the shard's
processors.
"""

from __future__ import annotations

import multiprocessing
import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import processes
import shard_client
from dslide.v1 import shard_pb2
from grpc_client import CallFailed, Connection, ConnectionLost, method_of
from kill_loop import quantile
from open_loop import OpenLoop
from protocol_abuse import Subject
from shard_client import matrix, model_spec, table_spec

# So large that asking takes the generators little of the processors that they share.
TABLE = table_spec("rows", 200_000, 64, init="uniform", role="head")
MODEL = model_spec("large", TABLE)
REQUEST = shard_pb2.TopKRequest(
    model=MODEL.name, table=TABLE.name, k=10, mode=shard_pb2.TOP_K_MODE_EXACT,
    hidden=matrix([[0.5] * TABLE.dim] * 8, TABLE.dim))
METHOD = method_of(REQUEST)
# Of any message: without fields it is the question for the whole server.
HEALTH = "/grpc.health.v1.Health/Check"
TIMEOUT_SECONDS = 2.0
CONNECTIONS = 48
SLOPE_MIB_PER_MINUTE, GOODPUT, HEALTH_MS = 1.0, 0.8, 100.0
_AT_ONCE = 8


def generate(address: str, seconds: float, rate: float | None, at_once: int,
             results: multiprocessing.Queue[dict[str, int]]) -> None:
    """In a process of its own: the counts of one OpenLoop go into the queue."""
    loop = OpenLoop(address, METHOD, REQUEST, CONNECTIONS if rate else 1, TIMEOUT_SECONDS)
    results.put(dict(loop.run(seconds, rate, at_once)))


def generated(address: str, seconds: float, rate: float | None = None,
              at_once: int = 0) -> Callable[[], dict[str, int]]:
    """A function that waits for the counts of a generator, which begins now."""
    # gRPC does not survive a fork.
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=generate, args=(address, seconds, rate, at_once, results),
                              daemon=True)
    process.start()

    def counts() -> dict[str, int]:
        found: dict[str, int] = results.get(timeout=seconds + processes.PATIENCE_SECONDS)
        process.join()
        return found

    return counts


def capacity_of(subject: Subject, seconds: float) -> float:
    """Answers per second to a few callers; `seconds` again until there was one."""
    spent, answered = 0.0, 0

    def measured() -> int:
        nonlocal spent, answered
        answered += generated(subject.address, seconds, at_once=_AT_ONCE)().get("OK", 0)
        spent += seconds
        return answered

    return processes.wait_until(measured, lambda: "an answer", alive=[subject.process]) / spent


class HealthWatch(threading.Thread):
    """Asks for health all the time, over its own connection."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._stopping = threading.Event()
        self.milliseconds: list[float] = []
        self.failures: list[str] = []

    def run(self) -> None:
        with Connection(self._address) as connection:
            while not self._stopping.wait(0.02):
                started = time.monotonic()
                try:
                    connection.call_bytes(HEALTH, b"")
                except CallFailed as error:
                    self.failures.append(str(error))
                except ConnectionLost as error:
                    self.failures.append(str(error))
                    return
                self.milliseconds.append(1000 * (time.monotonic() - started))

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def slope_mib_per_minute(samples: Sequence[tuple[float, float]]) -> float:
    """Of (seconds, MiB) samples: the least-squares line of those after the first third."""
    kept = samples[len(samples) // 3:]
    if len(kept) < 3:
        return 0.0
    return 60 * statistics.linear_regression(*zip(*kept)).slope


def broken(result: Mapping[str, Any]) -> Iterator[str]:
    """Lines: promises that a result breaks."""
    if not result["alive"]:
        yield "the shard has ended"
    if result["slope_mib_per_minute"] >= SLOPE_MIB_PER_MINUTE:
        yield f"memory grows by {result['slope_mib_per_minute']} MiB a minute"
    if result["goodput_ratio"] < GOODPUT:
        yield f"{result['goodput_ratio']} of the capacity is answered in time"
    if result["health_p99_ms"] > HEALTH_MS:
        yield f"health takes {result['health_p99_ms']} ms (p99)"
    if result["health_failures"]:
        yield f"{result['health_failures']} health calls failed"


def run(seconds: float, times: float) -> dict[str, Any]:
    """The result of one overload."""
    with tempfile.TemporaryDirectory(prefix="dslide-overload-") as directory:
        subject = Subject(pathlib.Path(directory) / "shard")
        try:
            with Connection(subject.address) as connection:
                shard_client.create_model(connection, MODEL)
            generated(subject.address, 0.5, at_once=_AT_ONCE)()  # warm
            capacity = capacity_of(subject, min(10.0, seconds / 3))
            watch = HealthWatch(subject.address)
            watch.start()
            counts = generated(subject.address, seconds, rate=times * capacity)
            samples, started = [], time.monotonic()
            while time.monotonic() < started + seconds and subject.process.running():
                samples.append((time.monotonic() - started, subject.memory_mib()))
                time.sleep(0.25)
            found = counts()
            watch.stop()
            result = {
                "seconds": seconds, "times": times, "alive": subject.process.running(),
                "capacity_per_second": round(capacity, 1), "answers": dict(sorted(found.items())),
                "offered_per_second": round(sum(found.values()) / seconds, 1),
                "goodput_ratio": round(found.get("OK", 0) / seconds / max(capacity, 1e-9), 3),
                "memory_mib": round(samples[-1][1], 1),
                "slope_mib_per_minute": round(slope_mib_per_minute(samples), 2),
                "health_p50_ms": quantile(watch.milliseconds, 0.5),
                "health_p99_ms": quantile(watch.milliseconds, 0.99),
                "health_calls": len(watch.milliseconds),
                "health_failures": len(watch.failures)}
        finally:
            subject.process.kill()
    return result | {"broken": list(broken(result))}
