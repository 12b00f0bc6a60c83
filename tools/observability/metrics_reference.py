"""docs/operate/metrics.md: every metric of the programs, as their live pages have them."""

from metrics_text import Family, Page

# Labels whose values are listed: few, and the same in every run. Of the rest only the name is told.
_LISTED = ("direction", "kind", "stage", "state", "health", "command", "top")

_INTRODUCTION = """\
# Metrics

Each program serves a page for Prometheus on its admin port, at `/metrics`: `dslide-coordinator` and
`dslide-shard` with `--admin HOST:PORT`, and so have a trainer (`dslide train`), a server of
predictions (`dslide serve`) and one of data (`dslide data serve`). Beside it are `/livez`,
`/readyz` and, at `/`, a page for people. `dslide top` shows rates without Prometheus.

This page is made from the live pages of a running cluster by
`tools/observability/metrics_reference.py`, and a test compares the two; do not edit it by hand.
[deploy/prometheus](../../deploy/prometheus/prometheus.yaml) has a scrape configuration and the
alerts (what to do about them: [runbook](runbook.md)),
[deploy/grafana](../../deploy/grafana/communication.json) the dashboards; both are shown in
[observability](observability.md).

Units are in the names: `_seconds`, `_bytes`, `_ratio`. Counters end in `_total` and begin at 0 when
the process starts; histograms have `_bucket`, `_sum` and `_count`. Labels have few values: a row, a
client or a job never is one. Names of tables are cut off after 64 different ones (`other`), reasons
of refusals after 100 (`OTHER`).
"""

_TITLES = {
    "dslide-shard": "Shards",
    "dslide-coordinator": "Coordinator",
    "dslide-trainer": "Trainers",
    "dslide-serve": "Servers of predictions",
    "dslide-data": "Servers of data",
}


def _labels_of(family: Family) -> str:
    parts = []
    for label, values in sorted(family.labels.items()):
        listed = label in _LISTED and len(values) > 1
        parts.append(f"`{label}`: " + ", ".join(sorted(values)) if listed else f"`{label}`")
    return "; ".join(parts)


def _table(families: Page) -> str:
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for name in sorted(families):
        family = families[name]
        meaning = family.help.replace("|", "\\|")
        lines.append(f"| `{name}` | {family.kind} | {_labels_of(family)} | {meaning} |")
    return "\n".join(lines)


def render(pages: dict[str, Page]) -> str:
    """pages: {program: its page}. What all programs have comes once, at the end."""
    secured = pages.pop("tls")
    common = set.intersection(*(set(page) for page in pages.values()))
    served = set(pages["dslide-shard"]) & set(pages["dslide-coordinator"]) - common
    sections = [_INTRODUCTION]
    for program, title in _TITLES.items():
        own = {name: family for name, family in pages[program].items()
               if name not in common and name not in served}
        sections.append(f"## {title}\n\n{_table(own)}\n")
    shard = pages["dslide-shard"]
    sections.append("## Shards and coordinator\n\nNames that dashboards for gRPC servers know.\n\n"
                    + _table({name: shard[name] for name in served}) + "\n")
    sections.append("## With certificates\n\n" + _table(
        {name: family for name, family in secured.items()
         if name not in pages["dslide-coordinator"]}) + "\n")
    sections.append("## Every process\n\n" + _table({name: shard[name] for name in common}) + "\n")
    return "\n".join(sections)
