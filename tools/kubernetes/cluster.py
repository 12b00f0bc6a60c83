"""A Kubernetes of its own on this machine, without a way out: up, down, and calls to it.

Needs root, runc, the CNI plugins and iptables. One at a time, as its network has fixed names.
"""

from __future__ import annotations

import fcntl
import json
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

import control_plane
import network
import node as nodes_of
from addresses import CONTROL_NAMESPACE, MAX_NODES, RUN, NodePlace, inside
from authority import Authority
from daemons import Daemons

VOLUMES_PER_NODE = 8
PATIENCE = 180.0


class ClusterError(Exception):
    """Something did not come up, or a command failed; says which and where the logs are."""


def wait_until(done: Callable[[], bool], what: str, patience: float = PATIENCE) -> float:
    """Seconds that it took."""
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > patience:
            raise ClusterError(f"not within {patience:.0f} s: {what}")
        time.sleep(0.2)
    return time.monotonic() - began


def _volumes(work: pathlib.Path, nodes: list[NodePlace]) -> str:
    """`local` ones, which honour fsGroup as those of clouds do."""
    parts = ["""apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
"""]
    for node in nodes:
        for number in range(VOLUMES_PER_NODE):
            name = f"{node.name}-{number}"
            folder = work / "volumes" / name
            folder.mkdir(parents=True)
            parts.append(f"""apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 30Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: standard
  local: {{path: {folder}}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node.name}]}}]
""")
    return "---\n".join(parts)


class Cluster:
    """Files below `work`, which up() makes and down() removes, but for the logs of a failure."""

    def __init__(self, programs: pathlib.Path, helm: pathlib.Path, work: pathlib.Path) -> None:
        self._programs = programs
        self._helm = helm
        self.work = work
        self.admin = work / "authority" / "admin.kubeconfig"

    def run(self, program: str | pathlib.Path, *arguments: object,
            text: str | None = None, within: float = 600) -> str:
        """What a command says that runs in the control plane's network with the admin's login."""
        ran = subprocess.run(
            inside(CONTROL_NAMESPACE, program, *arguments), input=text, text=True,
            capture_output=True, check=False, timeout=within,
            env={"KUBECONFIG": str(self.admin), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                 "HOME": str(self.work)})
        if ran.returncode != 0:
            command = " ".join(map(str, (pathlib.Path(program).name, *arguments)))
            raise ClusterError(f"{command}: status {ran.returncode}\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    def kubectl(self, *arguments: object, text: str | None = None) -> str:
        return self.run(self._programs / "kubectl", *arguments, text=text)

    def helm(self, *arguments: object) -> str:
        return self.run(self._helm, *arguments)

    def get(self, *arguments: object) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def _answers(self) -> bool:
        try:
            self.kubectl("get", "--raw", "/readyz")
        except ClusterError:
            return False
        return True

    def _ready_nodes(self) -> int:
        return sum(condition["type"] == "Ready" and condition["status"] == "True"
                   for item in self.get("nodes")["items"]
                   for condition in item["status"]["conditions"])

    def up(self, count: int, images: list[pathlib.Path]) -> float:
        """With `count` nodes, each with the images of those archives; seconds until all are
        ready."""
        if not 1 <= count <= MAX_NODES:
            raise ClusterError(f"{count} nodes: 1 to {MAX_NODES} can be had")
        if network.namespaces():
            raise ClusterError("there is a cluster on this machine: ./run kubernetes down ends it")
        began = time.monotonic()
        shutil.rmtree(self.work, ignore_errors=True)
        places = [NodePlace(number) for number in range(1, count + 1)]
        network.make(places)
        authority = Authority(self.work / "authority")
        control_plane.make_certificates(authority, places)
        daemons = Daemons(self._programs, self.work)
        control_plane.start(daemons, authority, self.admin)
        for place in places:
            nodes_of.prepare(place, daemons, authority, images)
            nodes_of.start(place, daemons, self.admin)
        wait_until(self._answers, "the API server answers")
        self.kubectl("apply", "-f", "-", text=_volumes(self.work, places))
        wait_until(lambda: self._ready_nodes() == count, "every node is ready")
        return time.monotonic() - began

    def down(self, keep_logs: bool = False) -> None:
        """Ends all of it; nothing is left but the logs, if wanted. Fine when there is none."""
        network.remove()
        for number in range(1, MAX_NODES + 1):
            nodes_of.remove_cgroups(NodePlace(number))
        shutil.rmtree(RUN, ignore_errors=True)
        for bound in pathlib.Path("/run/netns").glob("cni-*"):
            bound.unlink(missing_ok=True)  # the pods' networks went with their mounts
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
            raise ClusterError("another ./run kubernetes is at work on this machine") from None
