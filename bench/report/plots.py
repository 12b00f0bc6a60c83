"""Plots as SVG files whose bytes depend on nothing but the data."""

import matplotlib

matplotlib.use("svg")
# No random ids, and text as text: small files that anyone can search.
matplotlib.rcParams["svg.hashsalt"] = "dslide"
matplotlib.rcParams["svg.fonttype"] = "none"

from matplotlib import pyplot  # noqa: E402

SIZE = (6.4, 3.2)
OURS, OTHER = "#1f6f8b", "#c0713a"


def _save(figure, path):
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def curve(path, title, label, points, logarithmic):
    """Samples per second and resident memory against points' x."""
    figure, speed = pyplot.subplots(figsize=SIZE)
    memory = speed.twinx()
    xs = [point["x"] for point in points]
    memory.plot(xs, [point["rss_bytes"] / 1e9 for point in points], color=OTHER, marker="s",
                linestyle="--")
    memory.set_ylabel("resident memory, GB", color=OTHER)
    memory.set_ylim(bottom=0)
    speed.plot(xs, [point["samples_per_second"] for point in points], color=OURS, marker="o")
    speed.set_ylabel("samples/s", color=OURS)
    speed.set_ylim(bottom=0)
    speed.set_xlabel(label)
    if logarithmic:
        speed.set_xscale("log")
    else:
        speed.set_xticks(xs)
    speed.set_title(title)
    _save(figure, path)


def bars(path, title, label, pairs):
    """Horizontal bars of (name, value), the first on top, with their values."""
    figure, axes = pyplot.subplots(figsize=(SIZE[0], 0.8 + 0.32 * len(pairs)))
    names = [name for name, _ in pairs][::-1]
    values = [value for _, value in pairs][::-1]
    drawn = axes.barh(names, values, color=OURS)
    axes.bar_label(drawn, labels=[f" {value:,.3g}" for value in values])
    axes.set_xlim(right=1.15 * max(values, default=1) or 1)
    axes.set_xlabel(label)
    axes.set_title(title)
    _save(figure, path)
