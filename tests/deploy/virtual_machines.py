"""Stands in for machines: network namespaces on one bridge, each with an address and an engine."""

import contextlib
import os
import pathlib
import shutil

from engine import PrivateEngine, Unavailable, run

SUBNET = "10.77.0"
PREFIX = "dsl"


class Machine:
    """One namespace, joined to the bridge by a pair of interfaces."""

    def __init__(self, tag, number, name, bridge, directory):
        self.name = name
        self.address = f"{SUBNET}.{10 + number}"
        self.namespace = f"{PREFIX}{tag}-{name}"
        self._link = f"{PREFIX}{tag}{number}"
        self._inside = ["nsenter", f"--net=/run/netns/{self.namespace}"]
        self._directory = pathlib.Path(directory) / name
        self.engine = None
        run(["ip", "netns", "add", self.namespace])
        run(["ip", "link", "add", self._link, "type", "veth", "peer", "name", "eth0",
             "netns", self.namespace])
        run(["ip", "link", "set", self._link, "master", bridge, "up"])
        for command in (["addr", "add", f"{self.address}/24", "dev", "eth0"],
                        ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
            run([*self._inside, "ip", *command])

    def start_engine(self, images):
        """Starts its engine and gives it the images of an archive."""
        self.engine = PrivateEngine(self._directory, self.namespace)
        self.engine.docker("load", "-q", "-i", images, within=300)

    def plug(self, connected):
        """Pulls the cable of the machine, or puts it back."""
        run(["ip", "link", "set", self._link, "up" if connected else "down"])

    def page(self, address):
        """The text of a page of plain HTTP that this machine reaches."""
        program = ("import sys, urllib.request as u; sys.stdout.write(u.build_opener("
                   f"u.ProxyHandler({{}})).open('http://{address}', timeout=10).read().decode())")
        return run([*self._inside, "/usr/bin/python3", "-c", program]).stdout

    def remove(self):
        if self.engine:
            self.engine.stop()
        run(["ip", "netns", "del", self.namespace], accept=tuple(range(256)))
        run(["ip", "link", "del", self._link], accept=tuple(range(256)))


@contextlib.contextmanager
def machines(names, directory):
    """{name: Machine}, without engines yet; everything is taken away at the end."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nsenter"):
        raise Unavailable("machines of our own need root and the packages iproute2, util-linux")
    tag = os.getpid() % 100000
    bridge = f"{PREFIX}{tag}br"
    made = {}
    run(["ip", "link", "add", bridge, "type", "bridge"])
    try:
        run(["ip", "link", "set", bridge, "up"])
        for number, name in enumerate(names, 1):
            made[name] = Machine(tag, number, name, bridge, directory)
        yield made
    finally:
        for machine in made.values():
            machine.remove()
        run(["ip", "link", "del", bridge], accept=tuple(range(256)))
