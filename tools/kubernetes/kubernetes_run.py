"""Starts a real Kubernetes on this machine and lives in it: what ./run kubernetes calls.

usage: kubernetes_run.py up|down|smoke|readme|upgrades|faults|operators|all [--nodes N]
                         --programs DIR --helm FILE --bin-dir DIR --work DIR
                         [--operators DIR] [--only PART]... [--crane FILE] [-o json]

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
from node_faults import node_faults
from operators import PARTS, operators
from readme import readme
from registry import Registry
from release import NAMESPACE
from smoke import smoke
from steps import Steps
from upgrades import upgrades

# Seconds until a task is given up; what is left then is taken down as after any failure.
LIMITS = {"up": 300, "down": 120, "smoke": 540, "upgrades": 3600, "faults": 3600,
          "operators": 3600, "readme": 5400, "all": 7200}
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
SKIPPED = 77
SCENARIOS = {"smoke": smoke, "upgrades": upgrades, "faults": node_faults}
WITH_OPERATORS = "operators"  # the scenario that needs them
WITH_REGISTRY = "readme"
# Each in a cluster of its own.
TASKS = {name: [name] for name in (*SCENARIOS, WITH_OPERATORS, WITH_REGISTRY)}
TASKS["all"] = ["upgrades", "faults"]
ONE_NODE = ("smoke", WITH_OPERATORS, WITH_REGISTRY)
WITH_DISKS = "faults"


def make_images(options: argparse.Namespace, folder: pathlib.Path,
                task: str) -> list[pathlib.Path]:
    if task == WITH_REGISTRY:  # whence it has all others
        return [images.make_pause(folder)]
    tags = [images.TAG] if task in ONE_NODE else [images.TAG, images.NEXT_TAG]
    made = [images.make_pause(folder), *images.make_dslide(options.bin_dir, folder, tags)]
    if task == WITH_OPERATORS:
        made += operator_images.make(options.operators, folder)
    return made


def bring_up(cluster: Cluster, options: argparse.Namespace, task: str, steps: Steps) -> None:
    nodes = options.nodes or (1 if task in ONE_NODE else 3)
    with tempfile.TemporaryDirectory(prefix="dslide-images-") as folder:
        archives: list[pathlib.Path] = []
        steps("images", lambda: archives.extend(
            make_images(options, pathlib.Path(folder), task)))
        steps(f"cluster of {nodes} nodes",
              lambda: cluster.up(nodes, archives, with_disks=task == WITH_DISKS))


def live(cluster: Cluster, options: argparse.Namespace, scenario: str, steps: Steps) -> None:
    """Whatever happens, nothing of it stays but the logs of a failure."""
    succeeded = False
    try:
        bring_up(cluster, options, scenario, steps)
        dslide = options.bin_dir / "dslide"
        if scenario == WITH_OPERATORS:
            operators(cluster, dslide, options.operators.resolve(), steps, options.only or PARTS)
        elif scenario == WITH_REGISTRY:
            registry = Registry(cluster, options.helm.resolve(), options.crane.resolve())
            readme(cluster, registry, options.bin_dir, steps)
        else:
            SCENARIOS[scenario](cluster, dslide, steps)
        succeeded = True
    finally:
        if not succeeded:
            signal.alarm(0)
            describe_failure(cluster)
        end(cluster, steps, keep_logs=not succeeded)


def end(cluster: Cluster, steps: Steps, keep_logs: bool) -> None:
    """Takes all of it down, and is not to be interrupted in that."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    try:
        steps("down", lambda: cluster.down(keep_logs))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)


def describe_failure(cluster: Cluster) -> None:
    """What an operator would ask first."""
    for question in (["get", "pods", "-A", "-o", "wide"],
                     ["get", "events", "-A", "--sort-by=.lastTimestamp"],
                     *(["logs", "-n", space, "-l", "app.kubernetes.io/name=dslide", "--tail=20",
                        "--all-containers", "--prefix"] for space in (NAMESPACE, "default"))):
        try:
            print(cluster.kubectl(*question, within=20), file=sys.stderr)
        except (ClusterError, OSError) as error:
            print(f"   {error}", file=sys.stderr)
    print(f"   the logs of the cluster's parts are in {cluster.work / 'log'}", file=sys.stderr)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task", choices=("up", "down", *TASKS))
    parser.add_argument("--nodes", type=int)
    for path in ("--programs", "--helm", "--bin-dir", "--work"):
        parser.add_argument(path, type=pathlib.Path, required=True)
    parser.add_argument("--operators", type=pathlib.Path, help="what operators.sh has built")
    parser.add_argument("--crane", type=pathlib.Path, help="of a scenario with a registry")
    parser.add_argument("--only", action="append", choices=PARTS, help="of the operators")
    parser.add_argument("-o", "--output", choices=["json"])
    return parser.parse_args()


def limit_time(seconds: int) -> None:
    def expired(number: int, frame: object) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)


def run_task(cluster: Cluster, options: argparse.Namespace) -> dict[str, Steps]:
    """The steps of everything that was done, by what they belong to."""
    lock = MachineLock()
    done: dict[str, Steps] = {}
    if options.task == "down":
        end(cluster, done.setdefault("down", Steps()), keep_logs=False)
        return done
    cluster.refuse_another()
    guard = Guard(lambda: cluster.down(keep_logs=True))
    if options.task == "up":
        steps = done.setdefault("up", Steps())
        try:
            bring_up(cluster, options, "up", steps)
        except BaseException:
            end(cluster, steps, keep_logs=True)
            raise
        print(f"export KUBECONFIG={cluster.admin}", file=sys.stderr)
    for scenario in TASKS.get(options.task, []):
        print(f"   -- {scenario}", file=sys.stderr)
        live(cluster, options, scenario, done.setdefault(scenario, Steps()))
    guard.dismiss()
    del lock
    return done


def main() -> int:
    options = parse()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    limit_time(LIMITS[options.task])
    cluster = Cluster(options.programs.resolve(), options.helm.resolve(), options.work.resolve())
    options.bin_dir = options.bin_dir.resolve()
    try:
        done = run_task(cluster, options)
    except Occupied as error:
        print(f"   SKIPPED: kubernetes: {error}", file=sys.stderr)
        return SKIPPED
    except (ClusterError, TimeoutError) as error:
        print(f"run: kubernetes: {error}", file=sys.stderr)
        return 1
    if options.output:
        print(json.dumps({scenario: steps.seconds for scenario, steps in done.items()}))
    else:
        for scenario, steps in done.items():
            for name, seconds in steps.seconds.items():
                print(f"{scenario}: {name}: {seconds} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
