"""The chart as a release in the cluster: installed, watched, taken away."""

from __future__ import annotations

import base64
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from cluster import Cluster, ClusterError, wait_until
from images import ROOT
from trainer_watch import TrainerWatch

NAMESPACE = "dslide"
RELEASE = "dslide"
HELM_PATIENCE = "6m"
TRAINING_PATIENCE = 1800.0  # of a machine that is busy with other work
COORDINATOR = f"{RELEASE}-coordinator.{NAMESPACE}.svc:7000"
VALUES = pathlib.Path(__file__).with_name("values.yaml")


def create_namespace(cluster: Cluster) -> None:
    """Unless it is there."""
    cluster.kubectl("apply", "-f", "-", text=json.dumps(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}))


class Release:
    """`dslide`: the program on this machine, which asks the release's coordinator, with the flags
    `login` of its own."""

    def __init__(self, cluster: Cluster, dslide: pathlib.Path,
                 values: Sequence[pathlib.Path] = (), login: Sequence[str] = ()) -> None:
        self._cluster = cluster
        self._dslide = dslide
        self._values = [word for path in (VALUES, *values) for word in ("-f", path)]
        self._login = login
        create_namespace(cluster)

    def kubectl(self, *arguments: object) -> str:
        return self._cluster.kubectl("--namespace", NAMESPACE, *arguments)

    def get(self, kind: str, *arguments: object) -> list[Any]:
        items: list[Any] = json.loads(self.kubectl("get", kind, *arguments, "-o", "json"))["items"]
        return items

    def get_one(self, kind: str, name: str) -> Any:
        return json.loads(self.kubectl("get", kind, name, "-o", "json"))

    def shard(self, number: int) -> str:
        """The name of its pod."""
        return f"{RELEASE}-shard-{number}"

    def shard_address(self, number: int) -> str:
        return f"{self.shard(number)}.{RELEASE}-shard-headless.{NAMESPACE}.svc:7010"

    def node_of(self, pod: str) -> str:
        node: str = self.get_one("pod", pod)["spec"]["nodeName"]
        return node

    def _servers(self) -> list[Any]:
        """Pods of shards and coordinator."""
        return [pod for pod in self.get("pods") for owner in pod["metadata"]["ownerReferences"]
                if owner["kind"] == "StatefulSet"]

    def lives(self) -> set[tuple[str, int]]:
        """Of its servers: their pods, and how often the container of each was started again."""
        return {(pod["metadata"]["uid"], status["restartCount"]) for pod in self._servers()
                for status in pod["status"].get("containerStatuses", [])}

    def is_whole(self) -> bool:
        """Whether every server and every trainer runs, and is ready."""
        return all(
            found["status"].get("readyReplicas", 0) == found["spec"]["replicas"]
            for found in self.get("statefulsets")) and all(
            job["status"].get("ready", 0) == job["spec"]["parallelism"]
            for job in self.get("jobs"))

    def put_secret(self, name: str, files: Mapping[str, pathlib.Path]) -> None:
        """With the content of these files, in place of an older one."""
        content = {key: base64.b64encode(path.read_bytes()).decode() for key, path in files.items()}
        self._cluster.kubectl("apply", "-f", "-", text=json.dumps(
            {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
             "metadata": {"name": name, "namespace": NAMESPACE}, "data": content}))

    def watch_trainers(self) -> TrainerWatch:
        """In a log of its own: lines of two watches would be written into each other."""
        folder = self._cluster.work / "log"
        number = len(list(folder.glob("trainers-*.log"))) + 1
        return TrainerWatch(self._cluster.kubectl_command("--namespace", NAMESPACE),
                            folder / f"trainers-{number}.log")

    def _helm(self, command: str, *arguments: object) -> str:
        return self._cluster.helm(command, RELEASE, "--namespace", NAMESPACE, *arguments)

    def apply(self, command: str, *settings: str) -> None:
        """command: install or upgrade; returns when every pod of the release runs."""
        flags = [word for setting in settings for word in ("--set", setting)]
        self._helm(command, ROOT / "helm" / "dslide", *self._values, "--wait", "--timeout",
                   HELM_PATIENCE, *flags)

    def rollback(self, revision: int) -> None:
        self._helm("rollback", revision, "--wait", "--timeout", HELM_PATIENCE)

    def test(self) -> None:
        self._helm("test", "--timeout", HELM_PATIENCE)

    def remove(self) -> None:
        """What stays is what the chart promises to keep: the volumes."""
        self._helm("uninstall", "--wait", "--timeout", HELM_PATIENCE)
        wait_until(lambda: not self.get("pods"), "no pod is left")
        kinds = ("deployments,statefulsets,jobs,services,configmaps,serviceaccounts,"
                 "poddisruptionbudgets")
        left = [f"{item['kind']}/{item['metadata']['name']}" for item in self.get(kinds)
                if item["metadata"].get("labels", {}).get("app.kubernetes.io/instance") == RELEASE]
        if left:
            raise ClusterError(f"the uninstalled release left {left}")

    def ask(self, *command: object) -> Any:
        """What the coordinator answers to a command of dslide, as JSON, once its service is there.

        The proxy of the control plane learns of it later than the pods do.
        """
        return json.loads(self._cluster.resolving(
            self._dslide, "--timeout=60s", *self._login, *command, "--cluster", COORDINATOR, "-o",
            "json"))

    def job(self, name: str) -> Any:
        found = [job for job in self.ask("job", "list")["jobs"] if job["job"] == name]
        if not found:
            raise ClusterError(f"the coordinator knows no job {name}")
        return found[0]

    def wait_for_training(self) -> float:
        """Until the trainers' Job has ended; seconds. An error when it failed."""
        def ended() -> bool:
            conditions = [condition for job in self.get("jobs")
                          for condition in job["status"].get("conditions", [])
                          if condition["status"] == "True"]
            if any(condition["type"] == "Failed" for condition in conditions):
                raise ClusterError(f"the trainers' Job failed: {conditions}")
            return any(condition["type"] == "Complete" for condition in conditions)

        return wait_until(ended, "the trainers' Job has completed", TRAINING_PATIENCE)
