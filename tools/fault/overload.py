"""Ten times the work that a shard can do, for a while: it refuses, answers, and keeps its size.

Open-loop generators ask a shard for the best rows of a large table, exactly: cheap to ask, dear to
answer. First its capacity is measured, with a few calls at once; then calls come at `times` that
rate, whatever becomes of them, while somebody asks for its health. Promised under load: memory that
does not grow (less than 1 MiB a minute, after a third of the time), four fifths of the capacity in
answers that come in time, and health within 100 ms (p99). The generators share the shard's
processors.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import multiprocessing
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import grpc
import processes
import shard_client
from dslide.v1 import shard_pb2
from grpc_client import OPTIONS, Connection, method_of
from kill_loop import quantile
from protocol_abuse import Honest, Subject
from shard_client import matrix, model_spec, table_spec

# So large that asking takes the generators little of the processors that they share.
TABLE = table_spec("rows", 200_000, 64, init="uniform", role="head")
MODEL = model_spec("large", TABLE)
REQUEST = shard_pb2.TopKRequest(
    model=MODEL.name, table=TABLE.name, k=10, mode=shard_pb2.TOP_K_MODE_EXACT,
    hidden=matrix([[0.5] * TABLE.dim] * 8, TABLE.dim))
METHOD = method_of(REQUEST)
TIMEOUT_SECONDS = 2.0
CONNECTIONS, STREAMS = 48, 64
SLOPE_MIB_PER_MINUTE, GOODPUT, HEALTH_MS = 1.0, 0.8, 100.0
_AT_ONCE = 8


def generate(address: str, seconds: float, rate: float | None, at_once: int,
             results: multiprocessing.Queue[dict[str, int]]) -> None:
    """In a process of its own: makes REQUEST for a while, on many connections.

    Calls begin at a rate, whether the server keeps up or not, as those of a crowd that does not
    wait for each other; or (rate is None) so many are under way at one time. {name of a status or
    "no place": how many} goes into the queue. A call that has no answer within its timeout is given
    up.
    """
    with contextlib.ExitStack() as stack:
        channels = [stack.enter_context(grpc.insecure_channel(address, OPTIONS))
                    for _ in range(CONNECTIONS if rate else 1)]
        calls: list[Any] = [channel.unary_unary(METHOD) for channel in channels]
        message = REQUEST.SerializeToString()
        counts: collections.Counter[str] = collections.Counter()
        under_way: set[Any] = set()
        begun, started = 0, time.monotonic()
        while (now := time.monotonic()) < started + seconds:
            for call in [call for call in under_way if call.done()]:
                under_way.discard(call)
                counts[call.code().name] += 1
            due = (int((now - started) * rate) - begun if rate is not None
                   else at_once - len(under_way))
            for _ in range(due):
                begun += 1
                if len(under_way) < STREAMS * len(calls):
                    under_way.add(calls[begun % len(calls)].future(message,
                                                                   timeout=TIMEOUT_SECONDS))
                else:
                    counts["no place"] += 1
            time.sleep(0.002)
        for call in under_way:
            call.cancel()
        results.put(dict(counts))


def generated(seconds: float, address: str, rate: float | None = None,
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
        answered += generated(seconds, subject.address, at_once=_AT_ONCE)().get("OK", 0)
        spent += seconds
        return answered

    return processes.wait_until(measured, lambda: "an answer", alive=[subject.process]) / spent


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
    with tempfile.TemporaryDirectory(prefix="dslide-overload-") as directory, \
            Subject(pathlib.Path(directory) / "shard") as subject, \
            concurrent.futures.ThreadPoolExecutor() as pool:
        with Connection(subject.address) as connection:
            shard_client.create_model(connection, MODEL)
        generated(0.5, subject.address, at_once=_AT_ONCE)()  # warm
        capacity = capacity_of(subject, min(10.0, seconds / 3))
        honest = Honest(subject.address)
        asking = pool.submit(honest.call_for, seconds)
        counts = generated(seconds, subject.address, rate=times * capacity)
        samples, started = [], time.monotonic()
        while time.monotonic() < started + seconds and subject.process.running():
            samples.append((time.monotonic() - started, subject.memory_mib()))
            time.sleep(0.25)
        found, milliseconds = counts(), asking.result()
        honest.close()
        result = {
            "seconds": seconds, "times": times, "alive": subject.process.running(),
            "capacity_per_second": round(capacity, 1), "answers": dict(sorted(found.items())),
            "goodput_ratio": round(found.get("OK", 0) / seconds / max(capacity, 1e-9), 3),
            "memory_mib": round(samples[-1][1], 1),
            "slope_mib_per_minute": round(slope_mib_per_minute(samples), 2),
            "health_p99_ms": quantile(milliseconds, 0.99) or 0.0,
            "health_failures": len(honest.failures)}
    return result | {"broken": list(broken(result))}
