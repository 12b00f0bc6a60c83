"""The release's alerts of what takes hours, made to fire within a minute."""

from __future__ import annotations

import json
from typing import Any

from cluster import Cluster, ClusterError
from release import Release

NAMESPACE = "monitoring"
SUFFIX = "InHaste"
FOR = "10s"
# Of alerts, what is written in them instead of what; all wait only FOR.
CHANGES: dict[str, tuple[str, str]] = {
    "DslideCertificateExpires": ("", ""),
    # Some periods of the release's own checkpoints.
    "DslideNoClusterCheckpoint": ("> 86400", "> 90"),
}


def hasten(rules: list[Any]) -> list[Any]:
    """Copies of those that CHANGES names, of other names. An error when one is not there, or has
    not what is to be changed."""
    hasty = []
    for rule in rules:
        if rule["alert"] not in CHANGES:
            continue
        old, new = CHANGES[rule["alert"]]
        if old not in rule["expr"]:
            raise ClusterError(f"the alert {rule['alert']} has no '{old}': {rule['expr']}")
        hasty.append(rule | {"alert": rule["alert"] + SUFFIX, "for": FOR,
                             "expr": rule["expr"].replace(old, new) if old else rule["expr"]})
    if len(hasty) != len(CHANGES):
        raise ClusterError(f"the release has not all of {sorted(CHANGES)}")
    return hasty


def add(cluster: Cluster, release: Release) -> None:
    rules = [rule for item in release.get("prometheusrules")
             for group in item["spec"]["groups"] for rule in group["rules"]]
    cluster.kubectl("apply", "-f", "-", text=json.dumps({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
        "metadata": {"name": "hasty", "namespace": NAMESPACE},
        "spec": {"groups": [{"name": "hasty", "rules": hasten(rules)}]}}))
