"""The path of a new user: three commands of README.md, from an empty cluster of one small node to a
model that is trained and answers."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import statistics
import sys
from typing import Any

from cluster import Cluster, ClusterError, wait_until
from registry import Registry
from small_node import MEMORY, SmallNode
from steps import Steps
from stranger import Stranger, commands_of_readme, prefix_of

LEAST_PRECISION = 0.3  # of debian-packages, whose index differs by machine and day
PORT = 7031  # of predictions over HTTP
_TRAINER = "app.kubernetes.io/component=trainer"
_SHOWN = 3


def _precision(cluster: Cluster) -> float:
    """P@1 on the points for tests, from what the trainer says in the end."""
    log = cluster.kubectl("logs", "-l", _TRAINER, "--tail=-1")
    found = re.search(r"^this model +([0-9.]+)", log, re.MULTILINE)
    if not found:
        raise ClusterError(f"the trainer's log tells no precision:\n{log}")
    return float(found[1])


def _ask(cluster: Cluster) -> Any:
    return json.loads(cluster.run(
        sys.executable, pathlib.Path(__file__).with_name("questions.py"),
        f"http://127.0.0.1:{PORT}"))


def _is_forwarded(cluster: Cluster) -> bool:
    with contextlib.suppress(ClusterError):
        cluster.run("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{PORT}")
        return True
    return False


def _check_pods(cluster: Cluster) -> None:
    """None was started again: killed for memory, for instance."""
    for pod in cluster.get("pods")["items"]:
        for status in pod["status"].get("containerStatuses", []):
            if status["restartCount"] or "OOMKilled" in json.dumps(status):
                raise ClusterError(f"a container did not run well: {status}")


def _tell(what: str) -> None:
    print(f"   {what}", file=sys.stderr, flush=True)


def readme(cluster: Cluster, registry: Registry, bin_dir: pathlib.Path, steps: Steps) -> None:
    pull, install, forward = commands_of_readme()
    node = SmallNode(cluster)
    registry.start()
    steps("release", lambda: registry.publish(prefix_of(pull), bin_dir))
    stranger = Stranger(cluster, registry.helm)
    steps("helm pull", lambda: stranger.types(pull))
    steps("helm install, trained and serving", lambda: stranger.types(install))
    with stranger.beside(forward):
        steps("kubectl port-forward", lambda: wait_until(
            lambda: _is_forwarded(cluster), "the port is forwarded"))
        asked = _ask(cluster)
    for text, labels in list(zip(asked["texts"], asked["answers"]))[:_SHOWN]:
        _tell(f"{text}: {', '.join(f'{name} {score:.2f}' for name, score in labels)}")
    seconds = asked["seconds"]
    _tell(f"p50 of {len(seconds)} predictions: {statistics.median(seconds) * 1000:.1f} ms")
    precision, peak = _precision(cluster), node.peak()
    _tell(f"P@1 {precision:.4f}")
    _tell(f"memory of all pods: at most {peak / (1 << 20):,.0f} MiB of {MEMORY >> 20:,}")
    if precision < LEAST_PRECISION or peak >= MEMORY:
        raise ClusterError(f"P@1 {precision} and {peak} bytes: want {LEAST_PRECISION} at least, "
                           f"and less than {MEMORY} bytes")
    _check_pods(cluster)
