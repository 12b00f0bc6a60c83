"""What befalls nodes: each fault strikes, until the cluster has noticed it, and is healed."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any, Protocol

import network
from cluster import Cluster, ClusterError, wait_until
from disk_filler import DiskFiller
from increments import Increments
from release import NAMESPACE, Release

CUT_SECONDS = 60
DRAIN_SECONDS = 300


class Fault(Protocol):
    name: str
    spares_servers: bool  # whether every process of them has to stay

    def strike(self) -> None:
        """Until what has to notice it has noticed it."""

    def heal(self) -> None:
        """As far as the promises leave it to somebody else."""


class PowerLoss:
    """Kubelet, containerd and pods of the shard's node are gone at once, and nothing answers for
    them; its volume comes back with it."""

    spares_servers = False

    def __init__(self, cluster: Cluster, release: Release, shard: int) -> None:
        self.name = f"node of shard {shard} without power"
        self._cluster = cluster
        self._node = release.node_of(release.shard(shard))

    def strike(self) -> None:
        self._cluster.machines[self._node].power_off()
        wait_until(lambda: self._node not in self._cluster.ready_nodes(),
                   f"{self._node} is missed")

    def heal(self) -> None:
        self._cluster.machines[self._node].power_on()


class Drain:
    """The shard's node is emptied, and no other shard may go while its own waits for its volume."""

    spares_servers = False

    def __init__(self, cluster: Cluster, release: Release, shard: int, other: int) -> None:
        self.name = f"node of shard {shard} drained"
        self._cluster = cluster
        self._release = release
        self._node = release.node_of(release.shard(shard))
        self._other = release.shard(other)

    def strike(self) -> None:
        self._cluster.kubectl("drain", self._node, "--delete-emptydir-data",
                              f"--timeout={DRAIN_SECONDS}s", within=DRAIN_SECONDS + 60)
        try:
            self._evict(self._other)
        except ClusterError as error:
            if "disruption budget" not in str(error):
                raise
        else:
            raise ClusterError(f"{self._other} was evicted beside another shard")

    def _evict(self, pod: str) -> None:
        self._cluster.kubectl(
            "create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction", "-f", "-",
            text=json.dumps({"apiVersion": "policy/v1", "kind": "Eviction",
                             "metadata": {"name": pod, "namespace": NAMESPACE}}))

    def heal(self) -> None:
        self._cluster.kubectl("uncordon", self._node)


class MemoryShortage:
    """The kubelet of the shard's node is told to keep more memory free than there is: it evicts
    the shard, without a grace period."""

    spares_servers = False

    def __init__(self, cluster: Cluster, release: Release, shard: int) -> None:
        self.name = f"shard {shard} evicted for memory"
        self._release = release
        self._pod = release.shard(shard)
        self._machine = cluster.machines[release.node_of(self._pod)]

    def _identity(self) -> Any:
        with contextlib.suppress(ClusterError):  # between two pods there is none
            return self._release.get_one("pod", self._pod)["metadata"]["uid"]
        return None

    def strike(self) -> None:
        before = self._identity()
        self._machine.restart_kubelet("--eviction-hard=memory.available<99%")
        wait_until(lambda: self._identity() not in (before, None),
                   f"another pod takes the place of {self._pod}")

    def heal(self) -> None:
        self._machine.restart_kubelet()


class FullDisk:
    """The shard's volume has no byte left: updates are refused, by a process that stays."""

    spares_servers = True

    def __init__(self, cluster: Cluster, release: Release, shard: int,
                 increments: Increments) -> None:
        self.name = f"volume of shard {shard} full"
        self._shard = shard
        self._increments = increments
        self._disk = DiskFiller(cluster.machines[release.node_of(release.shard(shard))].disk())

    def strike(self) -> None:
        began = time.monotonic_ns()

        def refused() -> bool:
            self._disk.fill()  # also what is cleared away meanwhile
            return self._increments.was_refused(self._shard, "DISK_FULL", began)

        wait_until(refused, f"shard {self._shard} refuses what it cannot write")

    def heal(self) -> None:
        self._disk.free()


class NetworkCut:
    """Nothing passes between nodes for a minute; the control plane sees all of them."""

    name = f"network between nodes cut for {CUT_SECONDS} s"
    spares_servers = True

    def __init__(self, cluster: Cluster) -> None:
        self._places = [machine.place for machine in cluster.machines.values()]

    def strike(self) -> None:
        network.part(self._places, True)
        time.sleep(CUT_SECONDS)

    def heal(self) -> None:
        network.part(self._places, False)
