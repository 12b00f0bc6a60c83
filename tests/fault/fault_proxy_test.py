"""Each fault of the proxy as a plain client and a plain echo server see it; equal seeds.

Times are lower bounds only: a busy machine is slower, never faster.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fault_plan import DOWN, UP, Rule
from fault_proxy import RunningProxy
from hyperframe.frame import DataFrame, PingFrame
from processes import PATIENCE_SECONDS, wait_until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATTERN = bytes(range(256)) * 400


class EchoServer:
    """Sends back what it gets, and remembers it; says goodbye after a client's end."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.received: list[bytes] = []  # one for each connection
        self.ends: dict[int, str] = {}  # how connections ended: "eof" or "reset"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # The end of the thread in accept() is what closes the port.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.received.append(b"")
                threading.Thread(target=self._echo, args=(connection, len(self.received) - 1),
                                 daemon=True).start()

    def _echo(self, connection: socket.socket, number: int) -> None:
        try:
            while data := connection.recv(65536):
                self.received[number] += data
                connection.sendall(data)
        except OSError:
            self.ends[number] = "reset"
        else:
            self.ends[number] = "eof"
            # The other direction stays open: a half-closed peer still gets this.
            with contextlib.suppress(OSError):
                connection.sendall(b"goodbye")
        connection.close()


class Harness(contextlib.ExitStack):
    def __init__(self) -> None:
        super().__init__()
        self.server = EchoServer()
        self.callback(self.server.close)

    def connect(self, proxy: RunningProxy) -> socket.socket:
        host, port = proxy.address.split(":")
        client = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.enter_context(client)

    def connected(self, *rules: Rule, seed: int = 1) -> tuple[RunningProxy, socket.socket]:
        proxy = self.enter_context(RunningProxy(self.server.address, seed, rules))
        return proxy, self.connect(proxy)


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as made:
        yield made


def receive(client: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (data := client.recv(size - len(found))):
        found += data
    return found


def exchange(client: socket.socket, data: bytes, piece: int = 1 << 20) -> bytes:
    """What comes back; sent by a thread, since an echo fills both directions."""

    def send() -> None:
        with contextlib.suppress(OSError):  # the fault under test
            for at in range(0, len(data), piece):
                client.sendall(data[at:at + piece])

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    found = receive(client, len(data))
    sender.join(PATIENCE_SECONDS)
    return found


def faults(proxy: RunningProxy) -> list[tuple[Any, ...]]:
    return [(entry["fault"], entry["direction"], entry["offset"])
            for entry in proxy.trace.entries()]


def test_without_rules_bytes_and_ends_pass(harness: Harness) -> None:
    proxy, client = harness.connected()
    assert exchange(client, PATTERN) == PATTERN
    client.shutdown(socket.SHUT_WR)
    assert receive(client, 7) == b"goodbye"
    assert faults(proxy) == []


def test_a_target_that_is_not_there_resets_the_client(harness: Harness) -> None:
    harness.server.close()
    # The reset may be faster than the caller: then it is what connecting comes to.
    with pytest.raises(ConnectionResetError):
        harness.connected()[1].recv(1)


@pytest.mark.parametrize(("rules", "seconds"), [
    ([Rule("delay", UP, seconds=0.1, jitter=0.05), Rule("delay", DOWN, seconds=0.2)], 0.3),
    ([Rule("delay", seconds=0.001, jitter=0.05)], 0.002),
    ([Rule("stall", UP, at=1000, seconds=0.4)], 0.4)])
def test_what_takes_time_loses_and_moves_nothing(rules: list[Rule], seconds: float,
                                                 harness: Harness) -> None:
    proxy, client = harness.connected(*rules)
    started = time.monotonic()
    assert exchange(client, PATTERN, piece=5000) == PATTERN
    assert time.monotonic() - started >= seconds
    assert {fault for fault, *_ in faults(proxy)} == {rule.kind for rule in rules}


def test_cut_resets_both_ends_after_the_bytes_before_it(harness: Harness) -> None:
    proxy, client = harness.connected(Rule("cut", UP, at=1000))
    client.sendall(PATTERN[:1500])
    with pytest.raises(ConnectionResetError):
        while client.recv(4096):
            pass
    wait_until(lambda: harness.server.ends == {0: "reset"}, lambda: "the server sees the reset")
    assert harness.server.received == [PATTERN[:1000]]
    assert faults(proxy) == [("cut", UP, 1000)]


# --- frames --------------------------------------------------------------------------------------


def frames(count: int) -> list[bytes]:
    """PING frames, and DATA frames of differing lengths."""
    return [(DataFrame(1, bytes([number]) * (number * 37)) if number % 3
             else PingFrame(0, bytes(8))).serialize() for number in range(count)]


def test_a_duplicated_frame_arrives_twice_and_whole(harness: Harness) -> None:
    sent = frames(20)
    proxy, client = harness.connected(Rule("duplicate", UP, at=2, frame="DATA"))
    # The frames of kind DATA are number 1, 2, 4, ...: the third is number 4.
    expected = PREFACE + b"".join([*sent[:5], sent[4], *sent[5:]])
    for byte in PREFACE + b"".join(sent):
        client.sendall(bytes([byte]))
    assert receive(client, len(expected)) == expected
    entry, = proxy.trace.entries()
    assert (entry["frame"], entry["index"]) == ("DATA", 2)
    assert entry["offset"] == len(PREFACE + b"".join(sent[:4]))


def test_a_lost_reply_was_received_and_is_not_answered(harness: Harness) -> None:
    sent = frames(9)
    _, client = harness.connected(Rule("lose_reply", DOWN, at=1, frame="DATA"))
    client.sendall(b"".join(sent))
    found = b""
    with pytest.raises(ConnectionResetError):
        while received := client.recv(4096):
            found += received
    # A reset may overtake what was sent before it, and then it is less.
    assert b"".join(sent[:2]).startswith(found)
    assert harness.server.received[0] == b"".join(sent)


# --- seeds ---------------------------------------------------------------------------------------


def trace(harness: Harness, seed: int, piece: int = 65536) -> list[dict[str, Any]]:
    proxy, client = harness.connected(
        Rule("stall", every=5000, seconds=0.0, times=0),
        Rule("delay", DOWN, seconds=0.0001, jitter=0.001), Rule("cut", DOWN, at=90000), seed=seed)
    for connection in (client, harness.connect(proxy)):
        with contextlib.suppress(ConnectionResetError):
            exchange(connection, PATTERN, piece)
    # How far the client had sent when the cut came is a matter of timing.
    return [entry for entry in proxy.trace.entries()
            if entry["direction"] == DOWN or entry["offset"] < 60000]


def test_equal_seeds_give_equal_faults_however_the_bytes_are_cut(harness: Harness) -> None:
    first = trace(harness, 7)
    assert first == trace(harness, 7, piece=999) != trace(harness, 8)
    stalls = [{entry["offset"] for entry in first
              if entry["connection"] == number and entry["fault"] == "stall"} for number in (0, 1)]
    assert stalls[0] != stalls[1]
    # 2 x 90,000 bytes with a stall in 5,000: 36 on average, standard deviation 6.
    down = [entry for entry in first if entry["fault"] == "stall" and entry["direction"] == DOWN]
    assert 36 - 5 * 6 < len(down) < 36 + 5 * 6


# --- partitions ----------------------------------------------------------------------------------


def test_a_partition_swallows_a_direction_and_its_end_is_a_cut(harness: Harness) -> None:
    proxy, client = harness.connected()
    assert exchange(client, b"hello") == b"hello"
    proxy.partition([UP])
    client.sendall(b"nobody hears this")
    client.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(PATIENCE_SECONDS)
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    assert exchange(harness.connect(proxy), b"hello") == b"hello"
    assert b"nobody" not in b"".join(harness.server.received)
    assert faults(proxy) == [("partition", UP, 5)]


@pytest.mark.parametrize("wrong", [
    lambda: Rule("cut"), lambda: Rule("melt", at=1), lambda: Rule("cut", at=1, every=2),
    lambda: Rule("cut", "in", at=1)])
def test_a_wrong_rule_is_refused(wrong: Callable[[], Rule]) -> None:
    with pytest.raises(ValueError):
        wrong()
