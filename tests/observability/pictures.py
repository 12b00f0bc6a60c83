"""Pictures for the documentation: dashboards drawn from a Prometheus, and a screenshot of a page."""

import subprocess

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend is chosen first)

import dashboards  # noqa: E402

# Colours that readers of all kinds of colour vision tell apart (Okabe and Ito).
PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#999999"]
LINES = ["-", "--", ":"]
COLUMNS = 3
MOST_LEGEND = 8
_SCALES = {"Bps": (1e6, "MB/s"), "bytes": (1e6, "MB"), "s": (1e3, "ms"),
           "percentunit": (0.01, "%"), "ops": (1, "1/s"), "none": (1, "")}


def _legend(labels, template):
    for name, value in labels.items():
        template = template.replace("{{%s}}" % name, value)
    return template


def _draw_panel(axes, panel, prometheus, start, end):
    scale, unit = _SCALES[panel["fieldConfig"]["defaults"]["unit"]]
    step = max((end - start) / 60, 1)
    count = 0
    for target in panel["targets"]:
        query = dashboards.Query("", "", "", target["expr"], target["legendFormat"])
        for labels, points in prometheus.query_range(query.ready("15s"), start, end, step):
            axes.plot([at - start for at, _ in points], [value / scale for _, value in points],
                      color=PALETTE[count % len(PALETTE)],
                      linestyle=LINES[count // len(PALETTE) % len(LINES)], linewidth=1.3,
                      label=_legend(labels, query.legend) if count < MOST_LEGEND else None)
            count += 1
    axes.set_title(panel["title"], fontsize=8, loc="left")
    axes.set_ylabel(unit, fontsize=7)
    axes.tick_params(labelsize=6)
    axes.grid(alpha=0.3)
    if count:
        axes.legend(fontsize=5, loc="best")


def draw_dashboards(prometheus, start, end, folder):
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


def shoot_page(url, path, directory):
    """A screenshot, by a browser without a window."""
    subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         f"--user-data-dir={directory / 'chromium'}", "--window-size=900,2300",
         f"--screenshot={path}", url],
        check=True, capture_output=True, timeout=120)
