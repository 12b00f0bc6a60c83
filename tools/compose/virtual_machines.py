"""Stands in for machines: network namespaces on one switch, each with an address and an engine.

The switch is a bridge in a namespace of its own: the packet filter of this machine, which an engine
may have told to forward nothing, has no say there.
"""

import contextlib
import os
import pathlib
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from subprocess import CompletedProcess

from engine import PrivateEngine, Unavailable, Word, run

SUBNET = "10.77.0"
BRIDGE = "switch"


def _inside(namespace: str, *command: Word,
            accept: Sequence[int] = (0,)) -> CompletedProcess[str]:
    """Runs a command in a namespace."""
    return run(["nsenter", f"--net=/run/netns/{namespace}", *command], accept=accept)


class Machine:
    """One namespace, joined to the switch by a pair of interfaces."""

    def __init__(self, switch: str, number: int, name: str, directory: pathlib.Path) -> None:
        self.name = name
        self.address = f"{SUBNET}.{10 + number}"
        self.namespace = f"{switch}-{name}"
        self.engine: PrivateEngine | None = None
        self._switch = switch
        self._port = f"port{number}"
        self._directory = directory / name
        run(["ip", "netns", "add", self.namespace])
        _inside(switch, "ip", "link", "add", self._port, "type", "veth", "peer", "name", "eth0",
                "netns", self.namespace)
        _inside(switch, "ip", "link", "set", self._port, "master", BRIDGE, "up")
        for command in (["addr", "add", f"{self.address}/24", "dev", "eth0"],
                        ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
            _inside(self.namespace, "ip", *command)

    def start_engine(self, images: pathlib.Path) -> PrivateEngine:
        """Starts its engine and gives it the images of an archive."""
        self.engine = PrivateEngine(self._directory, self.namespace)
        self.engine.docker("load", "-q", "-i", images, within=300)
        return self.engine

    def plug(self, connected: bool) -> None:
        """Pulls the cable of the machine, or puts it back."""
        _inside(self._switch, "ip", "link", "set", self._port, "up" if connected else "down")

    def page(self, address: str) -> str:
        """The text of a page of plain HTTP that this machine reaches."""
        program = ("import sys, urllib.request as u; sys.stdout.write(u.build_opener("
                   f"u.ProxyHandler({{}})).open('http://{address}', timeout=10).read().decode())")
        return self.python("-c", program).stdout

    def python(self, *arguments: Word, accept: Sequence[int] = (0,)) -> CompletedProcess[str]:
        """Runs Python on this machine to its end."""
        return _inside(self.namespace, sys.executable, *arguments, accept=accept)

    def remove(self) -> None:
        if self.engine:
            self.engine.stop()
        run(["ip", "netns", "del", self.namespace], accept=tuple(range(256)))


@contextlib.contextmanager
def machines(names: Iterable[str], directory: pathlib.Path) -> Iterator[dict[str, Machine]]:
    """{name: Machine}, without engines yet; everything is taken away at the end."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nsenter"):
        raise Unavailable("machines of our own need root and the packages iproute2, util-linux")
    switch = f"dslide-{os.getpid()}"
    made: dict[str, Machine] = {}
    run(["ip", "netns", "add", switch])
    try:
        _inside(switch, "ip", "link", "add", BRIDGE, "type", "bridge")
        _inside(switch, "ip", "link", "set", BRIDGE, "up")
        for number, name in enumerate(names, 1):
            made[name] = Machine(switch, number, name, directory)
        yield made
    finally:
        for machine in made.values():
            machine.remove()
        run(["ip", "netns", "del", switch], accept=tuple(range(256)))
