"""A Kubernetes of its own on this machine, without a way out: up, down, and calls to it.

Needs root, runc, the CNI plugins and iptables. One at a time, as its network has fixed names.
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

import control_plane
import ending
import network
import node as nodes_of
from addresses import CONTROL_NAMESPACE, MAX_NODES, NodePlace, inside
from authority import Authority
from daemons import Daemons
from machine import Machine

VOLUMES_PER_NODE = 8
USER = 10001  # of the release's pods
PATIENCE = 300.0


class ClusterError(Exception):
    """Something did not come up, or a command failed; says which."""


class Occupied(ClusterError):
    """The machine has a cluster already, of which there is only one at a time."""


def wait_until(done: Callable[[], bool], what: str, patience: float = PATIENCE) -> float:
    """Seconds that it took."""
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > patience:
            raise ClusterError(f"not within {patience:.0f} s: {what}")
        time.sleep(0.2)
    return time.monotonic() - began


def _storage_class(name: str, annotations: str) -> str:
    return f"""apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: {name}
  annotations: {annotations}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
"""


def _volume(name: str, storage_class: str, source: str) -> str:
    return f"""apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 30Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: {storage_class}
  {source}
"""


def _local_volume(node: NodePlace, storage_class: str, folder: pathlib.Path) -> str:
    return _volume(folder.name, storage_class, f"""local: {{path: {folder}}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node.name}]}}]
""")


def _volumes(work: pathlib.Path, nodes: list[NodePlace], with_disks: bool) -> str:
    """`standard` are on one node each, and honour fsGroup as those of clouds do; `disk`, too, of
    which each node has one, as large as it says; `shared` are reached from every node and do not,
    as file servers."""
    parts = [_storage_class("standard", '{storageclass.kubernetes.io/is-default-class: "true"}'),
             _storage_class("disk", "{}"), _storage_class("shared", "{}")]
    for node in nodes:
        for number in range(VOLUMES_PER_NODE):
            folder = work / "volumes" / f"{node.name}-{number}"
            folder.mkdir(parents=True)
            parts.append(_local_volume(node, "standard", folder))
        if with_disks:
            parts.append(_local_volume(node, "disk", nodes_of.disk(node, work)))
    folder = work / "volumes" / "shared"
    folder.mkdir()
    os.chown(folder, USER, USER)
    parts.append(_volume("shared", "shared", f"hostPath: {{path: {folder}}}"))
    return "---\n".join(parts)


class Cluster:
    """Files below `work`, which up() makes and down() removes, but for the logs of a failure."""

    def __init__(self, programs: pathlib.Path, helm: pathlib.Path, work: pathlib.Path) -> None:
        self._programs = programs
        self._helm = helm
        self.work = work
        self.admin = work / "authority" / "admin.kubeconfig"
        self.machines: dict[str, Machine] = {}  # by the names of the nodes
        self._daemons: Daemons | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Of whoever is the cluster's administrator, and trusts its registry."""
        return {"KUBECONFIG": str(self.admin), "HOME": str(self.work),
                "SSL_CERT_FILE": str(self.work / "authority" / "ca.crt"),
                "PATH": f"{self._programs}:/usr/sbin:/usr/bin:/sbin:/bin"}

    def run(self, program: str | pathlib.Path, *arguments: object,
            text: str | None = None, within: float = 600) -> str:
        """What a command says that runs in the control plane's network with the admin's login."""
        command = " ".join(map(str, (pathlib.Path(program).name, *arguments)))
        try:
            ran = subprocess.run(
                inside(CONTROL_NAMESPACE, program, *arguments), input=text, text=True,
                capture_output=True, check=False, timeout=within, env=self.environment)
        except subprocess.TimeoutExpired:
            raise ClusterError(f"{command}: not within {within:.0f} s") from None
        if ran.returncode != 0:
            raise ClusterError(f"{command}: status {ran.returncode}\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    def _resolving(self, *command: object) -> list[object]:
        return ["unshare", "--mount", "sh", "-c",
                f"mount --bind {control_plane.resolver(self.work)} /etc/resolv.conf"
                ' && exec "$@"', "sh", *command]

    def resolving(self, *command: object, within: float = 120) -> str:
        """The same, where the names of services are found."""
        return self.run(*map(str, self._resolving(*command)), within=within)

    def resolving_command(self, *command: object) -> list[str]:
        """For what goes on there while others are asked."""
        return inside(CONTROL_NAMESPACE, *self._resolving(*command))

    def kubectl(self, *arguments: object, text: str | None = None, within: float = 60) -> str:
        return self.run(self._programs / "kubectl", *arguments, text=text, within=within)

    def kubectl_command(self, *arguments: str) -> list[str]:
        """For what goes on while others are asked for."""
        return inside(CONTROL_NAMESPACE, self._programs / "kubectl", "--kubeconfig", self.admin,
                      *arguments)

    def helm(self, *arguments: object) -> str:
        return self.run(self._helm, *arguments)

    def start(self, name: str, program: str | pathlib.Path, *arguments: object) -> None:
        """A program in the control plane's network, until the cluster goes."""
        assert self._daemons
        self._daemons.start(name, CONTROL_NAMESPACE, str(program), *arguments)

    def get(self, *arguments: object) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def nodes(self) -> list[str]:
        """Their names."""
        return [item["metadata"]["name"] for item in self.get("nodes")["items"]]

    def _answers(self) -> bool:
        try:
            self.kubectl("get", "--raw", "/readyz")
        except ClusterError:
            return False
        return True

    def ready_nodes(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.get("nodes")["items"]
                for condition in item["status"]["conditions"]
                if condition["type"] == "Ready" and condition["status"] == "True"]

    def refuse_another(self) -> None:
        if network.namespaces():
            raise Occupied("there is a cluster on this machine: ./run kubernetes down ends it")

    def up(self, count: int, images: list[pathlib.Path], with_disks: bool = False) -> float:
        """With `count` nodes, each with the images of those archives, and with a disk of its own
        where they are wanted; seconds until all are ready."""
        if not 1 <= count <= MAX_NODES:
            raise ClusterError(f"{count} nodes: 1 to {MAX_NODES} can be had")
        self.refuse_another()
        began = time.monotonic()
        shutil.rmtree(self.work, ignore_errors=True)
        places = [NodePlace(number) for number in range(1, count + 1)]
        network.make(places)
        authority = Authority(self.work / "authority")
        control_plane.make_certificates(authority, places)
        daemons = self._daemons = Daemons(self._programs, self.work)
        self.machines = {place.name: Machine(place, daemons, self.admin) for place in places}
        control_plane.start_api(daemons, authority)
        for place in places:
            nodes_of.prepare(place, daemons, authority, images, with_disks)
            nodes_of.start(place, daemons)
        wait_until(self._answers, "the API server answers")
        control_plane.start_controllers(daemons, authority, self.admin)
        for machine in self.machines.values():
            machine.start_proxy()
        self.kubectl("apply", "-f", "-", text=_volumes(self.work, places, with_disks))
        wait_until(lambda: len(self.ready_nodes()) == count, "every node is ready")
        return time.monotonic() - began

    def down(self, keep_logs: bool = False) -> None:
        """Ends all of it; nothing is left but the logs, if wanted. Fine when there is none."""
        nodes = [NodePlace(number) for number in range(1, MAX_NODES + 1)]
        ending.kill_all(lambda: {
            *(pid for space in network.namespaces() for pid in network.processes(space)),
            *(pid for node in nodes for pid in ending.cgroup_processes(node.cgroup))})
        network.remove()
        for node in nodes:
            ending.remove_cgroup(node.cgroup)
        nodes_of.remove_fixed_folders()
        if not self.work.exists():
            return
        for entry in self.work.iterdir():
            if keep_logs and entry.name == "log":
                continue
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


class MachineLock:
    """Held by whoever makes or ends the cluster of this machine."""

    def __init__(self, path: pathlib.Path = pathlib.Path("/run/dslide-kubernetes.lock")) -> None:
        self._file = open(path, "wb")  # noqa: SIM115  (closed when the process ends)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Occupied("another ./run kubernetes is at work on this machine") from None
