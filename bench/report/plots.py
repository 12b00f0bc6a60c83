"""Plots as SVG files whose bytes depend on nothing but the data."""

import matplotlib

matplotlib.use("svg")
# No random ids, and text as text: small files that anyone can search.
matplotlib.rcParams["svg.hashsalt"] = "dslide"
matplotlib.rcParams["svg.fonttype"] = "none"

from matplotlib import pyplot, ticker  # noqa: E402

SIZE = (6.4, 3.2)
OURS, OTHER = "#1f6f8b", "#c0713a"


def _save(figure, path, rect=(0, 0, 1, 1)):
    """`rect` is where the axes may be; the rest is room for a legend."""
    figure.tight_layout(rect=rect)
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


def search_costs(path, panels):
    """A panel for each (title, {way: [(points, microseconds)]}), both axes logarithmic."""
    figure, grid = pyplot.subplots(1, len(panels), figsize=(4.8 * len(panels), 3.6), squeeze=False)
    drawn = {}
    for axes, (title, ways) in zip(grid.flat, panels):
        for way, mark in zip(ways, "o^vs"):
            drawn[way], = axes.loglog(*zip(*ways[way]), marker=mark)
        axes.set_xlabel("points")
        axes.set_ylabel("microseconds a query, one core")
        axes.grid(True, which="major", alpha=0.3)
        axes.set_title(title)
    figure.legend(drawn.values(), drawn.keys(), loc="lower center", ncol=4, fontsize="small")
    _save(figure, path, rect=(0, 0.08, 1, 1))


def accuracy_against_cost(path, panels):
    """A panel for each (title, [(tool, CPU-seconds, P@1, its standard error)]); a tool has one mark
    everywhere, and below them all is which."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(4.8 * columns, 3.2 * rows + 0.6),
                                   squeeze=False)
    tools = list(dict.fromkeys(point[0] for _, points in panels for point in points))
    marks = dict(zip(tools, zip("o^vsDPX", pyplot.get_cmap("tab10").colors)))
    drawn = {}
    for axes in grid.flat[len(panels):]:
        axes.remove()
    for axes, (title, points) in zip(grid.flat, panels):
        for tool, seconds, accuracy, error in points:
            mark, colour = marks[tool]
            drawn[tool] = axes.errorbar([seconds], [accuracy], yerr=[error], fmt=mark, color=colour)
        axes.set_xscale("log")
        # Plain numbers, and between the powers of ten only where there is room.
        axes.xaxis.set_major_formatter(ticker.LogFormatter())
        axes.xaxis.set_minor_formatter(ticker.LogFormatter(minor_thresholds=(1, 0.4)))
        axes.tick_params(axis="x", which="both", labelsize="small")
        axes.margins(x=0.15, y=0.15)
        axes.set_xlabel("CPU-seconds of training")
        axes.set_ylabel("P@1")
        axes.set_title(title)
    # Below the panels, in the room that is kept for it.
    figure.legend(drawn.values(), drawn.keys(), loc="lower center", ncol=4, fontsize="small")
    _save(figure, path, rect=(0, 0.6 / (3.2 * rows + 0.6), 1, 1))
