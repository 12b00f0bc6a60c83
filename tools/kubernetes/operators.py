"""The operators that users have in their clusters, each with a release that uses it."""

from __future__ import annotations

import pathlib

from cert_manager import live_with_cert_manager
from cluster import Cluster
from kueue import live_with_kueue
from monitoring import live_with_prometheus
from steps import Steps


def operators(cluster: Cluster, dslide: pathlib.Path, folder: pathlib.Path, steps: Steps) -> None:
    """`folder`: what operators.sh has built."""
    charts = folder / "charts"
    live_with_kueue(cluster, dslide, charts, steps)
    live_with_cert_manager(cluster, dslide, charts, steps)
    live_with_prometheus(cluster, dslide, folder / "prometheus-operator.yaml", steps)
