"""The operators that users have in their clusters, each with a release that uses it."""

from __future__ import annotations

import pathlib
from collections.abc import Collection

from cert_manager import live_with_cert_manager, provide_issuers
from cluster import Cluster
from kueue import live_with_kueue
from monitoring import live_with_prometheus
from steps import Steps

PARTS = ("kueue", "cert-manager", "prometheus")


def operators(cluster: Cluster, dslide: pathlib.Path, folder: pathlib.Path, steps: Steps,
              parts: Collection[str] = PARTS) -> None:
    """`folder`: what operators.sh has built. `parts`: those of PARTS that are wanted."""
    charts = folder / "charts"
    if "kueue" in parts:
        live_with_kueue(cluster, dslide, charts, steps)
    if {"cert-manager", "prometheus"} & set(parts):
        provide_issuers(cluster, charts, steps)
    if "cert-manager" in parts:
        live_with_cert_manager(cluster, dslide, steps)
    if "prometheus" in parts:
        live_with_prometheus(cluster, dslide, folder / "prometheus-operator.yaml", steps)
