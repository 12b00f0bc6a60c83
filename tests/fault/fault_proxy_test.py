"""Each fault of the proxy as a plain client and a plain echo server see it; equal seeds.

usage: fault_proxy_test.py [unittest arguments]

Times are lower bounds only: a busy machine is slower, never faster.
"""

import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from fault_plan import DOWN, UP, Rule
from fault_proxy import RunningProxy
from hyperframe.frame import DataFrame, PingFrame
from processes import PATIENCE_SECONDS

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATTERN = bytes(range(256)) * 400


class EchoServer:
    """Sends back what it gets, and remembers it."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self.received = []  # one bytearray for each connection
        self.ends = []  # how each connection ended: "eof" or "reset"
        self._changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        # The end of the thread in accept() is what closes the port.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                number = len(self.received)
                self.received.append(bytearray())
                self.ends.append(None)
            threading.Thread(target=self._echo, args=(connection, number), daemon=True).start()

    def _echo(self, connection, number):
        end = "eof"
        try:
            while data := connection.recv(65536):
                with self._changed:
                    self.received[number] += data
                    self._changed.notify_all()
                connection.sendall(data)
        except OSError:
            end = "reset"
        with self._changed:
            self.ends[number] = end
            self._changed.notify_all()
        if end == "eof":
            # The other direction stays open: a half-closed peer still gets this.
            with contextlib.suppress(OSError):
                connection.sendall(b"goodbye")
        connection.close()

    def wait(self, condition):
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout=PATIENCE_SECONDS):
                raise AssertionError("the echo server has not seen it in time")


class ProxyTest(unittest.TestCase):
    def setUp(self):
        self.server = EchoServer()
        self.addCleanup(self.server.close)

    def proxy(self, *rules, seed=1, **arguments):
        proxy = RunningProxy(self.server.address, seed, rules, **arguments)
        self.addCleanup(proxy.close)
        return proxy

    def connect(self, proxy):
        host, port = proxy.address.split(":")
        client = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.addCleanup(client.close)
        return client

    def receive(self, client, size):
        found = b""
        while len(found) < size:
            data = client.recv(size - len(found))
            if not data:
                break
            found += data
        return found

    def send_all(self, client, data, piece=None):
        """In a thread: an echo fills both directions."""

        def send():
            try:
                for at in range(0, len(data), piece or len(data)):
                    client.sendall(data[at:at + (piece or len(data))])
            except OSError:
                pass  # the fault under test

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        return thread

    def exchange(self, client, data, piece=None):
        sender = self.send_all(client, data, piece)
        found = self.receive(client, len(data))
        sender.join(PATIENCE_SECONDS)
        return found


class PassingTest(ProxyTest):
    def test_without_rules_bytes_and_ends_pass(self):
        proxy = self.proxy()
        client = self.connect(proxy)
        self.assertEqual(self.exchange(client, PATTERN), PATTERN)
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(self.receive(client, 7), b"goodbye")
        self.assertEqual(proxy.trace.entries(), [])

    def test_a_target_that_is_not_there_resets_the_client(self):
        self.server.close()
        proxy = self.proxy()
        # The reset may be faster than the caller: then it is what connecting comes to.
        with self.assertRaises(ConnectionResetError):
            self.connect(proxy).recv(1)


class FaultTest(ProxyTest):
    def faults(self, proxy):
        return [(entry["fault"], entry["direction"], entry["offset"])
                for entry in proxy.trace.entries()]

    def test_delay_with_jitter(self):
        proxy = self.proxy(Rule("delay", UP, seconds=0.1, jitter=0.05),
                           Rule("delay", DOWN, seconds=0.2))
        client = self.connect(proxy)
        started = time.monotonic()
        self.assertEqual(self.exchange(client, b"ping"), b"ping")
        self.assertGreaterEqual(time.monotonic() - started, 0.3)
        up, = [entry for entry in proxy.trace.entries() if entry["direction"] == UP]
        self.assertGreater(up["seconds"], 0.1)
        self.assertLess(up["seconds"], 0.15)

    def test_delay_keeps_the_order_of_bytes(self):
        client = self.connect(self.proxy(Rule("delay", seconds=0.001, jitter=0.05)))
        self.assertEqual(self.exchange(client, PATTERN, piece=5000), PATTERN)

    def test_rate_limit(self):
        proxy = self.proxy(Rule("rate", DOWN, rate=200_000))
        client = self.connect(proxy)
        started = time.monotonic()
        self.assertEqual(self.exchange(client, PATTERN), PATTERN)
        self.assertGreaterEqual(time.monotonic() - started, 0.9 * len(PATTERN) / 200_000)
        self.assertEqual(self.faults(proxy), [("rate", DOWN, 0)])

    def test_cut_resets_both_ends_after_the_bytes_before_it(self):
        proxy = self.proxy(Rule("cut", UP, at=1000))
        client = self.connect(proxy)
        client.sendall(PATTERN[:1500])
        with self.assertRaises(ConnectionResetError):
            while client.recv(4096):
                pass
        self.server.wait(lambda server: server.ends == ["reset"])
        self.assertEqual(self.server.received[0], PATTERN[:1000])
        self.assertEqual(self.faults(proxy), [("cut", UP, 1000)])

    def test_half_close_ends_one_direction_only(self):
        proxy = self.proxy(Rule("half_close", UP, at=1000))
        client = self.connect(proxy)
        client.sendall(PATTERN[:1500])
        self.assertEqual(self.receive(client, 1007), PATTERN[:1000] + b"goodbye")
        self.assertEqual(self.server.ends, ["eof"])
        self.assertEqual(self.faults(proxy), [("half_close", UP, 1000)])

    def test_stall_holds_bytes_back_and_loses_none(self):
        proxy = self.proxy(Rule("stall", UP, at=1000, seconds=0.4))
        client = self.connect(proxy)
        started = time.monotonic()
        self.assertEqual(self.exchange(client, PATTERN), PATTERN)
        self.assertGreaterEqual(time.monotonic() - started, 0.4)
        self.assertEqual(self.faults(proxy), [("stall", UP, 1000)])

    def test_flip_changes_one_bit_at_its_place(self):
        proxy = self.proxy(Rule("flip", UP, at=70000), Rule("flip", DOWN, at=3))
        client = self.connect(proxy)
        echoed = self.exchange(client, PATTERN)
        up, = [entry for entry in proxy.trace.entries() if entry["direction"] == UP]
        down, = [entry for entry in proxy.trace.entries() if entry["direction"] == DOWN]
        expected = bytearray(PATTERN)
        expected[70000] ^= 1 << up["bit"]
        self.assertEqual(self.server.received[0], expected)
        expected[3] ^= 1 << down["bit"]
        self.assertEqual(echoed, expected)

    def test_blackhole_swallows_one_direction_silently(self):
        proxy = self.proxy(Rule("blackhole", DOWN, at=1000))
        client = self.connect(proxy)
        client.sendall(PATTERN)
        self.assertEqual(self.receive(client, 1000), PATTERN[:1000])
        self.server.wait(lambda server: len(server.received[0]) == len(PATTERN))
        client.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            client.recv(1)
        self.assertEqual(self.faults(proxy), [("blackhole", DOWN, 1000)])


class FrameTest(ProxyTest):
    def frames(self, count):
        """PING frames, and DATA frames of differing lengths."""
        return [(DataFrame(1, bytes([number]) * (number * 37)) if number % 3
                 else PingFrame(0, bytes(8))).serialize() for number in range(count)]

    def test_a_duplicated_frame_arrives_twice_and_whole(self):
        frames = self.frames(20)
        proxy = self.proxy(Rule("duplicate", UP, at=2, frame="DATA"))
        client = self.connect(proxy)
        data = PREFACE + b"".join(frames)
        self.send_all(client, data, piece=11)
        # The frames of kind DATA are number 1, 2, 4, ...: the third is number 4.
        expected = [*frames[:5], frames[4], *frames[5:]]
        whole = PREFACE + b"".join(expected)
        self.assertEqual(self.receive(client, len(whole)), whole)
        entry, = proxy.trace.entries()
        self.assertEqual((entry["fault"], entry["frame"], entry["index"]), ("duplicate", "DATA", 2))
        self.assertEqual(data[entry["offset"]:][:len(frames[4])], frames[4])

    def test_a_lost_reply_was_received_and_is_not_answered(self):
        frames = self.frames(9)
        data = b"".join(frames)
        proxy = self.proxy(Rule("lose_reply", DOWN, at=1, frame="DATA"))
        client = self.connect(proxy)
        client.sendall(data)
        found = b""
        with self.assertRaises(ConnectionResetError):
            while received := client.recv(4096):
                found += received
        # A reset may overtake what was sent before it, and then it is less.
        kept = b"".join(frames[:2])
        self.assertTrue(kept.startswith(found), found)
        self.assertEqual(self.server.received[0], data)


class SeedTest(ProxyTest):
    RULES = (Rule("flip", every=5000, times=0),
             Rule("stall", UP, every=40000, seconds=0.001, times=0),
             Rule("delay", DOWN, seconds=0.0001, jitter=0.001), Rule("cut", DOWN, at=90000))

    def trace(self, seed, piece):
        proxy = self.proxy(*self.RULES, seed=seed)
        for _ in range(2):
            client = self.connect(proxy)
            try:
                self.exchange(client, PATTERN, piece)
            except ConnectionResetError:
                pass
        return [entry for entry in proxy.trace.entries()
                # How far the client had sent when the cut came is a matter of timing.
                if entry["direction"] == DOWN or entry["offset"] < 60000]

    def test_equal_seeds_give_equal_faults_however_the_bytes_are_cut(self):
        first = self.trace(seed=7, piece=65536)
        self.assertGreater(len(first), 40)
        self.assertEqual(first, self.trace(seed=7, piece=999))

    def test_other_seeds_and_other_connections_give_other_faults(self):
        first = self.trace(seed=7, piece=65536)
        self.assertNotEqual(first, self.trace(seed=8, piece=65536))
        offsets = [{entry["offset"] for entry in first
                    if entry["connection"] == number and entry["fault"] == "flip"}
                   for number in (0, 1)]
        self.assertNotEqual(*offsets)

    def test_a_mean_distance_is_kept(self):
        flips = [entry for entry in self.trace(seed=3, piece=65536)
                 if entry["fault"] == "flip" and entry["direction"] == DOWN]
        # 2 x 90,000 bytes with a flip in 5,000: 36 on average, standard deviation 6.
        self.assertGreater(len(flips), 36 - 5 * 6)
        self.assertLess(len(flips), 36 + 5 * 6)


class CommandTest(ProxyTest):
    def test_cut_of_one_connection_leaves_the_others(self):
        proxy = self.proxy()
        clients = []
        for _ in range(2):
            clients.append(self.connect(proxy))
            self.assertEqual(self.exchange(clients[-1], b"hello"), b"hello")
        proxy.command("cut", connection=0)
        with self.assertRaises(ConnectionResetError):
            clients[0].recv(1)
        self.assertEqual(self.exchange(clients[1], b"again"), b"again")
        self.assertEqual(proxy.command("stats")["faults"], {"cut": 1})

    def test_refusing_and_healing(self):
        proxy = self.proxy()
        proxy.command("refuse")
        with self.assertRaises(ConnectionResetError):
            self.connect(proxy).recv(1)
        proxy.command("heal")
        self.assertEqual(self.exchange(self.connect(proxy), b"hello"), b"hello")

    def test_a_blackhole_ends_with_a_cut(self):
        proxy = self.proxy()
        client = self.connect(proxy)
        self.assertEqual(self.exchange(client, b"hello"), b"hello")
        proxy.command("blackhole", directions=[UP])
        client.sendall(b"nobody hears this")
        client.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            client.recv(1)
        proxy.command("heal")
        client.settimeout(PATIENCE_SECONDS)
        with self.assertRaises(ConnectionResetError):
            client.recv(1)
        self.assertEqual(self.server.received[0], b"hello")

    def test_stall_and_half_close(self):
        proxy = self.proxy()
        client = self.connect(proxy)
        self.assertEqual(self.exchange(client, b"hello"), b"hello")
        started = time.monotonic()
        proxy.command("stall", seconds=0.3)
        self.assertEqual(self.exchange(client, b"hello"), b"hello")
        self.assertGreaterEqual(time.monotonic() - started, 0.3)
        proxy.command("half_close", directions=[UP])
        self.assertEqual(self.receive(client, 7), b"goodbye")

    def test_rules_count_for_connections_to_come(self):
        proxy = self.proxy()
        before = self.connect(proxy)
        self.assertEqual(self.exchange(before, b"hello"), b"hello")
        proxy.command("rules", rules=[{"kind": "cut", "direction": "up", "at": 0}])
        with self.assertRaises(ConnectionResetError):
            after = self.connect(proxy)
            after.sendall(b"x")
            after.recv(1)
        self.assertEqual(self.exchange(before, b"again"), b"again")

    def test_a_wrong_rule_is_refused(self):
        for wrong in ({"kind": "cut"}, {"kind": "melt", "at": 1}, {"kind": "rate"},
                      {"kind": "cut", "at": 1, "every": 2},
                      {"kind": "cut", "at": 1, "direction": "in"}):
            with self.assertRaises(ValueError):
                Rule(**wrong)


class ProcessTest(ProxyTest):
    def test_as_a_process_with_a_control_socket_and_a_trace(self):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        process = subprocess.Popen(
            [sys.executable, pathlib.Path(__file__).with_name("fault_proxy.py"), "--target",
             self.server.address, "--control", directory / "control",
             "--trace", directory / "trace",
             "--rule", '{"kind": "flip", "direction": "up", "at": 0}'],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        process.address = process.stdout.readline().strip()
        client = self.connect(process)
        client.sendall(b"hello")
        self.assertEqual(self.receive(client, 5)[1:], b"ello")
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(directory / "control"))
            lines = control.makefile("rw")
            lines.write('{"do": "cut"}\n{"do": "melt"}\n')
            lines.flush()
            self.assertEqual(json.loads(lines.readline())["faults"], {"flip": 1, "cut": 1})
            self.assertIn("unknown command 'melt'", json.loads(lines.readline())["error"])
        with self.assertRaises(ConnectionResetError):
            client.recv(1)
        traced = [json.loads(line) for line in (directory / "trace").read_text().splitlines()]
        self.assertEqual([(entry["fault"], entry["offset"]) for entry in traced],
                         [("flip", 0), ("cut", 5)])


if __name__ == "__main__":
    unittest.main()
