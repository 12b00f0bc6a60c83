"""A node that has as much as a laptop: for its pods, two processors and 4 GiB."""

from __future__ import annotations

import os

from cluster import Cluster, ClusterError, wait_until
from ending import CGROUPS
from machine import Machine

PROCESSORS = 2
MEMORY = 4 << 30
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "": 1}
# Of version 1 and of version 2 of control groups; page cache counts.
_PEAKS = ("memory/{}/kubepods/memory.max_usage_in_bytes", "{}/kubepods/memory.peak")


def bytes_of(quantity: str) -> int:
    number = quantity.rstrip("KMGi")
    return int(number) * _UNITS[quantity[len(number):]]


class SmallNode:
    """The only node of a cluster, from its making on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        [self._machine] = cluster.machines.values()
        _shrink(self._machine, max(0, self._memory("capacity") - MEMORY))
        wait_until(lambda: self._memory("allocatable") <= MEMORY,
                   "the node offers no more than its share")
        wait_until(lambda: bool(cluster.ready_nodes()), "the smaller node is ready")

    def _memory(self, kind: str) -> int:
        [node] = self._cluster.get("nodes")["items"]
        return bytes_of(node["status"][kind]["memory"])

    def peak(self) -> int:
        """Bytes that all its pods had together at most, the files that the kernel keeps for them
        included."""
        for path in _PEAKS:
            file = CGROUPS / path.format(self._machine.place.cgroup)
            if file.exists():
                return int(file.read_text(encoding="ascii"))
        raise ClusterError("the machine's control groups tell no peak of memory")


def _shrink(machine: Machine, memory: int) -> None:
    """Keeps the rest of the machine from the node's pods, as for the system below them."""
    processors = max(0, (os.cpu_count() or PROCESSORS) - PROCESSORS)
    machine.restart_kubelet("--enforce-node-allocatable=pods",
                            f"--system-reserved=cpu={processors},memory={memory}")
