"""The queries of the dashboards that a release has put into the cluster for Grafana."""

from __future__ import annotations

import dataclasses
import json
import re

from release import Release

RATE_WINDOW = "1m"


@dataclasses.dataclass(frozen=True)
class Query:
    dashboard: str
    panel: str
    expression: str  # with all variables put in that Grafana would put in


def _ready(expression: str) -> str:
    return re.sub(r'"\$\w+"', '".*"', expression.replace("$__rate_interval", RATE_WINDOW))


def read(release: Release) -> list[Query]:
    boards = [(file, json.loads(text)) for item in release.get("configmaps", "-l",
                                                               "grafana_dashboard=1")
              for file, text in item["data"].items()]
    return [Query(file, panel["title"], _ready(target["expr"]))
            for file, board in boards for panel in board["panels"]
            for target in panel.get("targets", [])]
