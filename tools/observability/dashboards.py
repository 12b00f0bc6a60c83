"""The dashboards and alerts of deploy/, as these tests see them."""

import dataclasses
import json
import pathlib
import re
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRAFANA = ROOT / "deploy" / "grafana"
PROMETHEUS = ROOT / "deploy" / "prometheus"
METRICS_PAGE = ROOT / "docs" / "operate" / "metrics.md"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
# dslide_cluster is a label.
_METRIC = re.compile(r"\b(?!dslide_cluster\b)(?:dslide|grpc_server|process)_[a-z0-9_]+")
_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


@dataclasses.dataclass
class Query:
    dashboard: str
    panel: str
    expression: str
    legend: str

    def ready(self, rate_interval: str) -> str:
        """With the variables put in that Grafana would put in."""
        return re.sub(r'"\$\w+"', '".*"',
                      self.expression.replace("$__rate_interval", rate_interval))


def load(name: str) -> Any:
    return json.loads((GRAFANA / f"{name}.json").read_text(encoding="utf-8"))


def names() -> list[str]:
    return sorted(path.stem for path in GRAFANA.glob("*.json"))


def panels(name: str) -> list[Any]:
    return [panel for panel in load(name)["panels"] if panel["type"] != "row"]


def queries_of(name: str, panel: Any) -> list[Query]:
    return [Query(name, panel["title"], target["expr"], target["legendFormat"])
            for target in panel["targets"]]


def queries() -> list[Query]:
    return [query for name in names() for panel in panels(name)
            for query in queries_of(name, panel)]


def metrics_in(expression: str) -> set[str]:
    """Names of the metrics that a query reads; histograms without their part."""
    return set(_METRIC.findall(_STRING.sub('""', expression)))


def documented() -> set[str]:
    """Names in docs/operate/metrics.md, and those of the histograms' parts."""
    text = METRICS_PAGE.read_text(encoding="utf-8")
    found = set()
    for name, kind in re.findall(r"^\| `([a-z0-9_]+)` \| (\w+) \|", text, re.MULTILINE):
        found.add(name)
        if kind == "histogram":
            found.update(name + part for part in _HISTOGRAM_PARTS)
    return found


def alerts() -> dict[str, Any]:
    """{name: rule} of alerts.yaml."""
    groups = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}
