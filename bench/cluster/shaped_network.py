"""A few machines with slow links, on one machine: a network namespace each, joined by a bridge.

    with ShapedNetwork(["trainer", "shard0"]) as network:
        network.shape("100mbit")
        subprocess.run([*network.inside("shard0"), "ip", "address"])

Every host has one interface, eth0; both ends of its cable are shaped with a token bucket, so each
direction has the rate. The bridge lives in a namespace of its own: the outer network is not touched.
Everything goes when the block ends, however it ends, SIGTERM included. Needs root and iproute2;
without, entering raises NetworkUnavailable.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

# Burst for each rate: a token bucket that is too small for a rate does not reach it.
BURSTS = {"1gbit": "128kb", "100mbit": "32kb"}


class NetworkUnavailable(Exception):
    """Why this machine cannot make namespaces."""


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NetworkUnavailable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class ShapedNetwork:
    def __init__(self, hosts):
        self._prefix = f"dslide{os.getpid()}"
        self._hosts = {host: f"10.219.0.{number}" for number, host in enumerate(hosts, 1)}
        self._made = []
        self._old_handler = None

    def __enter__(self):
        if os.geteuid() != 0:
            raise NetworkUnavailable("needs root, to make network namespaces")
        for tool in ("ip", "tc"):
            if shutil.which(tool) is None:
                raise NetworkUnavailable(f"needs {tool} (apt-get install iproute2)")
        # By default SIGTERM ends a process without its `finally` blocks.
        self._old_handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    def _namespace(self, host):
        return f"{self._prefix}-{host}"

    def _add_namespace(self, host):
        _run("ip", "netns", "add", self._namespace(host))
        self._made.append(self._namespace(host))
        _run("ip", "-n", self._namespace(host), "link", "set", "lo", "up")

    def _build(self):
        hub = self._namespace("hub")
        self._add_namespace("hub")
        _run("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", hub, "link", "set", "bridge", "up")
        for host, address in self._hosts.items():
            name = self._namespace(host)
            self._add_namespace(host)
            # Made inside: neither end is ever seen outside.
            _run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", host,
                 "netns", hub)
            _run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "eth0", "up")
            _run("ip", "-n", hub, "link", "set", host, "master", "bridge", "up")

    def _remove(self):
        while self._made:
            subprocess.run(["ip", "netns", "del", self._made.pop()], check=False)
        if self._old_handler is not None:
            signal.signal(signal.SIGTERM, self._old_handler)
            self._old_handler = None

    def shape(self, rate):
        """`rate`: a key of BURSTS."""
        hub = self._namespace("hub")
        for host in self._hosts:
            for name, device in ((self._namespace(host), "eth0"), (hub, host)):
                _run("tc", "-n", name, "qdisc", "replace", "dev", device, "root", "tbf",
                     "rate", rate, "burst", BURSTS[rate], "latency", "50ms")

    def address(self, host):
        return self._hosts[host]

    def inside(self, host):
        """The beginning of a command line that runs inside a host."""
        return ["ip", "netns", "exec", self._namespace(host)]

    def bytes(self, host):
        """Bytes that a host has sent and received, as the kernel counts them at eth0."""
        text = _run(*self.inside(host), "cat", "/proc/net/dev")
        fields = re.search(r"^ *eth0: *(.*)$", text, re.MULTILINE).group(1).split()
        return int(fields[0]) + int(fields[8])

    @staticmethod
    def congestion_control():
        path = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")
        return path.read_text(encoding="ascii").strip()
