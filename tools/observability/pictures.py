"""Pictures for the docs: dashboards drawn from a Prometheus, and a screenshot of a page."""

import math
import pathlib
import subprocess
from typing import Any

import dashboards
import matplotlib
from prometheus_server import RATE_WINDOW, PrometheusServer

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend is chosen first)

# Colours that readers of all kinds of colour vision tell apart (Okabe and Ito).
PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#999999"]
LINES = ["-", "--", ":"]
COLUMNS = 3
MOST_LEGEND = 8
# By Grafana's unit: (unit shown, what one of it is), the largest last.
_UNITS: dict[str, list[tuple[str, float]]] = {
    "Bps": [("B/s", 1), ("kB/s", 1e3), ("MB/s", 1e6)],
    "bytes": [("B", 1), ("kB", 1e3), ("MB", 1e6)],
    "s": [("us", 1e-6), ("ms", 1e-3), ("s", 1)],
    "percentunit": [("%", 0.01)], "ops": [("1/s", 1)], "none": [("", 1)],
}


def _unit_for(kind: str, peak: float) -> tuple[str, float]:
    fitting = [unit for unit in _UNITS[kind] if unit[1] <= peak]
    return fitting[-1] if fitting else _UNITS[kind][0]


def _legend(labels: dict[str, str], template: str) -> str:
    for name, value in labels.items():
        template = template.replace(f"{{{{{name}}}}}", value)
    return template


def _lines(panel: Any, prometheus: PrometheusServer, start: float, end: float) -> list[Any]:
    """[(peak, legend, points)], the highest first; flat zeros only where there is nothing else."""
    step = max((end - start) / 60, 1)
    lines = []
    for query in dashboards.queries_of("", panel):
        for labels, points in prometheus.query_range(query.ready(RATE_WINDOW), start, end, step):
            finite = [(at - start, value) for at, value in points if math.isfinite(value)]
            if finite:
                peak = max(abs(value) for _, value in finite)
                lines.append((peak, _legend(labels, query.legend), finite))
    lines.sort(key=lambda line: (-line[0], line[1]))
    return [line for line in lines if line[0] > 0] or lines


def _draw_panel(axes: Any, panel: Any, prometheus: PrometheusServer, start: float,
                end: float) -> None:
    lines = _lines(panel, prometheus, start, end)
    unit, scale = _unit_for(panel["fieldConfig"]["defaults"]["unit"], lines[0][0] if lines else 0)
    for number, (_, legend, points) in enumerate(lines):
        axes.plot([at for at, _ in points], [value / scale for _, value in points],
                  color=PALETTE[number % len(PALETTE)],
                  linestyle=LINES[number // len(PALETTE) % len(LINES)], linewidth=1.3,
                  label=legend if number < MOST_LEGEND else None)
    axes.set_title(panel["title"], fontsize=8, loc="left")
    axes.set_ylabel(unit, fontsize=7)
    axes.tick_params(labelsize=6)
    axes.ticklabel_format(useOffset=False)
    axes.grid(alpha=0.3)
    if lines:
        lowest = min(value for _, _, points in lines for _, value in points)
        highest = max(value for _, _, points in lines for _, value in points)
        room = 0.08 * (highest - min(lowest, 0)) or scale  # nothing but zeros: up to 1
        axes.set_ylim((min(lowest, 0) - (room if lowest < 0 else 0)) / scale,
                      (highest + room) / scale)
        axes.legend(fontsize=5, loc="best")


def draw_dashboards(prometheus: PrometheusServer, start: float, end: float,
                    folder: pathlib.Path) -> None:
    """One picture for each dashboard: all panels, over the time that the Prometheus has watched."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in dashboards.names():
        panels = dashboards.panels(name)
        rows = -(-len(panels) // COLUMNS)
        figure, grid = plt.subplots(rows, COLUMNS, figsize=(11, 2.1 * rows), squeeze=False)
        for axes in grid.flat[len(panels):]:
            axes.set_axis_off()
        for axes, panel in zip(grid.flat, panels):
            _draw_panel(axes, panel, prometheus, start, end)
        figure.suptitle(f"{dashboards.load(name)['title']} (seconds of a small run)", fontsize=10)
        figure.tight_layout()
        figure.savefig(folder / f"dashboard-{name}.png", dpi=80,
                       metadata={"Software": None})
        plt.close(figure)


def shoot_page(url: str, path: pathlib.Path, directory: pathlib.Path) -> None:
    """A screenshot, by a browser without a window."""
    subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         f"--user-data-dir={directory / 'chromium'}", "--window-size=900,2060",
         f"--screenshot={path}", url],
        check=True, capture_output=True, timeout=120)
