"""Starts a real Kubernetes on this machine and lives in it: what ./run kubernetes calls.

usage: kubernetes_run.py up|down|smoke|upgrades|operators [--nodes N] --programs DIR --helm FILE
                         --bin-dir DIR --work DIR [--operators DIR] [-o json]

stderr tells what happens; stdout ends with the figures, with -o json as one JSON object.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import signal
import sys
import tempfile

import images
import operator_images
from cluster import Cluster, ClusterError, MachineLock, Occupied
from guard import Guard
from operators import operators
from release import NAMESPACE
from smoke import smoke
from steps import Steps
from upgrades import upgrades

NODES = {"up": 3, "smoke": 1, "upgrades": 3, "operators": 1}
# Seconds until a task is given up; what is left then is taken down as after any failure.
LIMITS = {"up": 300, "down": 120, "smoke": 540, "upgrades": 2700, "operators": 3600}
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
SKIPPED = 77
SCENARIOS = {"smoke": smoke, "upgrades": upgrades}


def make_images(options: argparse.Namespace, folder: pathlib.Path) -> list[pathlib.Path]:
    tags = [images.TAG] if options.task == "smoke" else [images.TAG, images.NEXT_TAG]
    made = [images.make_pause(folder), *images.make_dslide(options.bin_dir, folder, tags)]
    if options.operators:
        made += operator_images.make(options.operators, folder)
    return made


def bring_up(cluster: Cluster, options: argparse.Namespace, steps: Steps) -> None:
    nodes = options.nodes or NODES[options.task]
    with tempfile.TemporaryDirectory(prefix="dslide-images-") as folder:
        archives: list[pathlib.Path] = []
        steps("images", lambda: archives.extend(
            make_images(options, pathlib.Path(folder))))
        steps(f"cluster of {nodes} nodes", lambda: cluster.up(nodes, archives))


def live(cluster: Cluster, options: argparse.Namespace, steps: Steps) -> None:
    """Whatever happens, nothing of it stays but the logs of a failure."""
    succeeded = False
    try:
        bring_up(cluster, options, steps)
        dslide = options.bin_dir / "dslide"
        if options.task == "operators":
            operators(cluster, dslide, options.operators.resolve(), steps)
        else:
            SCENARIOS[options.task](cluster, dslide, steps)
        succeeded = True
    finally:
        signal.alarm(0)
        if not succeeded:
            describe_failure(cluster)
        end(cluster, steps, keep_logs=not succeeded)


def end(cluster: Cluster, steps: Steps, keep_logs: bool) -> None:
    """Takes all of it down, and is not to be interrupted in that."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    steps("down", lambda: cluster.down(keep_logs))


def describe_failure(cluster: Cluster) -> None:
    """What an operator would ask first."""
    for question in (["get", "pods", "-A", "-o", "wide"],
                     ["get", "events", "-A", "--sort-by=.lastTimestamp"],
                     ["logs", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=dslide", "--tail=20",
                      "--all-containers", "--prefix"]):
        try:
            print(cluster.kubectl(*question, within=20), file=sys.stderr)
        except (ClusterError, OSError) as error:
            print(f"   {error}", file=sys.stderr)
    print(f"   the logs of the cluster's parts are in {cluster.work / 'log'}", file=sys.stderr)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task", choices=("up", "down", "operators", *SCENARIOS))
    parser.add_argument("--nodes", type=int)
    for path in ("--programs", "--helm", "--bin-dir", "--work"):
        parser.add_argument(path, type=pathlib.Path, required=True)
    parser.add_argument("--operators", type=pathlib.Path)
    parser.add_argument("-o", "--output", choices=["json"])
    options = parser.parse_args()
    if options.task == "operators" and not options.operators:
        parser.error("operators needs --operators")
    return options


def limit_time(seconds: int) -> None:
    def expired(number: int, frame: object) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)


def run_task(cluster: Cluster, options: argparse.Namespace, steps: Steps) -> None:
    lock = MachineLock()
    if options.task == "down":
        end(cluster, steps, keep_logs=False)
        return
    cluster.refuse_another()
    guard = Guard(lambda: cluster.down(keep_logs=True))
    if options.task == "up":
        try:
            bring_up(cluster, options, steps)
        except BaseException:
            end(cluster, steps, keep_logs=True)
            raise
        print(f"export KUBECONFIG={cluster.admin}", file=sys.stderr)
    else:
        live(cluster, options, steps)
    guard.dismiss()
    del lock


def main() -> int:
    options = parse()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    limit_time(LIMITS[options.task])
    cluster = Cluster(options.programs.resolve(), options.helm.resolve(), options.work.resolve())
    options.bin_dir = options.bin_dir.resolve()
    steps = Steps()
    try:
        run_task(cluster, options, steps)
    except Occupied as error:
        print(f"   SKIPPED: kubernetes: {error}", file=sys.stderr)
        return SKIPPED
    except (ClusterError, TimeoutError) as error:
        print(f"run: kubernetes: {error}", file=sys.stderr)
        return 1
    if options.output:
        print(json.dumps(steps.seconds))
    else:
        for name, seconds in steps.seconds.items():
            print(f"{name}: {seconds} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
