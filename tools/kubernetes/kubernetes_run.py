"""Starts a real Kubernetes on this machine and lives in it: what ./run kubernetes calls.

usage: kubernetes_run.py up|down|smoke|upgrades [--nodes N] --programs DIR --helm FILE
                         --bin-dir DIR --work DIR [-o json]

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
import scenarios
from cluster import Cluster, ClusterError, MachineLock
from release import Release

NODES = {"up": 3, "smoke": 1, "upgrades": 3}
SCENARIOS = {"smoke": scenarios.smoke, "upgrades": scenarios.upgrades}


def make_images(bin_dir: pathlib.Path, folder: pathlib.Path) -> list[pathlib.Path]:
    tag = (images.ROOT / "VERSION").read_text(encoding="ascii").strip()
    return [images.make_pause(folder), images.make_dslide(bin_dir, folder, tag)]


def bring_up(cluster: Cluster, options: argparse.Namespace, steps: scenarios.Steps) -> None:
    nodes = options.nodes or NODES[options.task]
    with tempfile.TemporaryDirectory(prefix="dslide-images-") as folder:
        archives: list[pathlib.Path] = []
        steps("images", lambda: archives.extend(
            make_images(options.bin_dir, pathlib.Path(folder))))
        steps(f"cluster of {nodes} nodes", lambda: cluster.up(nodes, archives))


def live(cluster: Cluster, options: argparse.Namespace, steps: scenarios.Steps) -> None:
    """Whatever happens, nothing of it stays but the logs of a failure."""
    succeeded = False
    try:
        bring_up(cluster, options, steps)
        SCENARIOS[options.task](Release(cluster, options.bin_dir / "dslide"), steps)
        succeeded = True
    finally:
        if not succeeded:
            describe_failure(cluster)
        steps("down", lambda: cluster.down(keep_logs=not succeeded))


def describe_failure(cluster: Cluster) -> None:
    """What an operator would ask first."""
    for question in (["get", "pods", "-A", "-o", "wide"],
                     ["get", "events", "-A", "--sort-by=.lastTimestamp"],
                     ["logs", "-A", "-l", "app.kubernetes.io/name=dslide", "--tail=20",
                      "--all-containers", "--prefix"]):
        try:
            print(cluster.kubectl(*question), file=sys.stderr)
        except (ClusterError, OSError) as error:
            print(f"   {error}", file=sys.stderr)
    print(f"   the logs of the cluster's parts are in {cluster.work / 'log'}", file=sys.stderr)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("task", choices=("up", "down", *SCENARIOS))
    parser.add_argument("--nodes", type=int)
    for path in ("--programs", "--helm", "--bin-dir", "--work"):
        parser.add_argument(path, type=pathlib.Path, required=True)
    parser.add_argument("-o", "--output", choices=["json"])
    return parser.parse_args()


def main() -> int:
    options = parse()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    cluster = Cluster(options.programs.resolve(), options.helm.resolve(), options.work.resolve())
    options.bin_dir = options.bin_dir.resolve()
    steps = scenarios.Steps()
    try:
        lock = MachineLock()
        if options.task == "down":
            cluster.down()
        elif options.task == "up":
            try:
                bring_up(cluster, options, steps)
            except BaseException:
                cluster.down(keep_logs=True)
                raise
            print(f"export KUBECONFIG={cluster.admin}", file=sys.stderr)
        else:
            live(cluster, options, steps)
        del lock
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
