"""The machine that a node is, as far as it can be taken away, or be made to suffer."""

from __future__ import annotations

import pathlib

import network
import node as nodes_of
from addresses import NodePlace
from daemons import Daemons


class Machine:
    def __init__(self, place: NodePlace, daemons: Daemons, admin: pathlib.Path) -> None:
        self.place = place
        self._daemons = daemons
        self._admin = admin

    def start_proxy(self) -> None:
        """When the API server answers."""
        self._daemons.start_proxy(self.place.name, self.place.namespace, self._admin)

    def power_off(self) -> None:
        """As without current: nobody is told, and nothing answers any more."""
        network.cut(self.place, True)
        nodes_of.kill(self.place)

    def power_on(self) -> None:
        """With its disks as they were; whoever waits for it sees when it is ready."""
        network.cut(self.place, False)
        nodes_of.start(self.place, self._daemons)
        self.start_proxy()

    def restart_kubelet(self, *flags: str) -> None:
        nodes_of.restart_kubelet(self.place, self._daemons, *flags)

    def disk(self) -> pathlib.Path:
        """From outside, until the power is off."""
        return nodes_of.seen_by(self.place, nodes_of.disk(self.place, self._daemons.work))
