"""The dashboards and alerts of deploy/, as these tests see them."""

import dataclasses
import json
import re

import observability_paths

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_METRIC = re.compile(r"\b(?:dslide|grpc_server|process)_[a-z0-9_]+")
_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


@dataclasses.dataclass
class Query:
    dashboard: str
    panel: str
    unit: str
    expression: str
    legend: str

    def ready(self, rate_interval):
        """With the variables put in that Grafana would put in."""
        return (self.expression.replace("$__rate_interval", rate_interval)
                .replace("$instance", ".*"))


def load(name):
    return json.loads((observability_paths.GRAFANA / f"{name}.json").read_text(encoding="utf-8"))


def names():
    return sorted(path.stem for path in observability_paths.GRAFANA.glob("*.json"))


def panels(name):
    return [panel for panel in load(name)["panels"] if panel["type"] != "row"]


def queries():
    return [Query(name, panel["title"], panel["fieldConfig"]["defaults"]["unit"], target["expr"],
                  target["legendFormat"])
            for name in names() for panel in panels(name) for target in panel["targets"]]


def metrics_in(expression):
    """Names of the metrics that a query reads; histograms without their part."""
    return set(_METRIC.findall(_STRING.sub('""', expression)))


def documented():
    """Names in docs/operate/metrics.md, and those of the histograms' parts."""
    text = observability_paths.METRICS_PAGE.read_text(encoding="utf-8")
    found = set()
    for name, kind in re.findall(r"^\| `([a-z0-9_]+)` \| (\w+) \|", text, re.MULTILINE):
        found.add(name)
        if kind == "histogram":
            found.update(name + part for part in _HISTOGRAM_PARTS)
    return found


def alerts():
    """[(name, block of text)] of alerts.yaml. Plain text: PyYAML is not needed everywhere."""
    text = observability_paths.ALERTS.read_text(encoding="utf-8")
    parts = re.split(r"^ +- alert: +(\w+)$", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2]))
