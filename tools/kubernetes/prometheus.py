"""The Prometheus of the operator, as what it answers."""

from __future__ import annotations

import contextlib
import json
import math
import urllib.parse
from typing import Any

from cluster import Cluster, ClusterError

_API = "/api/v1/namespaces/monitoring/services/http:prometheus-operated:9090/proxy/api/v1"


class Prometheus:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def _get(self, path: str, **parameters: str) -> Any:
        asked = f"{_API}/{path}?{urllib.parse.urlencode(parameters)}"
        return json.loads(self._cluster.kubectl("get", "--raw", asked))["data"]

    def answers(self) -> bool:
        with contextlib.suppress(ClusterError):
            self._get("query", query="1")
            return True
        return False

    def has_data(self, expression: str) -> bool:
        """A number that a panel draws: a quantile of nothing is none."""
        return any(not math.isnan(float(series["value"][1]))
                   for series in self._get("query", query=expression)["result"])

    def healths(self) -> dict[str, str]:
        """Of everything that the monitors of the chart name: up, down or unknown, by pod."""
        return {target["labels"].get("pod", target["scrapeUrl"]): target["health"]
                for target in self._get("targets", state="active")["activeTargets"]}

    def rules(self) -> list[Any]:
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def alerts(self, state: str) -> list[str]:
        """Names of those that are `firing` or `pending`."""
        return sorted(alert["labels"]["alertname"] for alert in self._get("alerts")["alerts"]
                      if alert["state"] == state)
