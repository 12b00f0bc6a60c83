"""Makes docs/understand/benchmarks.md and its plots from measured results, or shows one result.

usage: report.py --results DIR --output DOCS_DIR
       report.py --show NAME FILE
       report.py --plot-neighbours FILE SVG

The page depends on the results and the template alone: the same files give the same bytes.
"""

import argparse
import json
import pathlib
import sys

import facts
import neighbour_tables
import page
import paper_tables
import peer_tables
import serve_tables
import tables
import torch_tables

# What can be shown: also what has a page of its own.
SHOWN = tables.SECTIONS | {
    "peers": peer_tables.peers,
    "paper": paper_tables.paper,
    "neighbours": neighbour_tables.neighbours,
    "serve": serve_tables.serve,
    "torch": torch_tables.torch,
}
HERE = pathlib.Path(__file__).resolve().parent
# Curve -> (title, label of x, logarithmic).
CURVES = {
    "rows": ("Growth by rows of the output layer", "rows", True),
    "compact": ("Growth by rows of two bytes a weight", "rows", True),
    "hidden": ("Growth by hidden width", "hidden units", False),
    "threads": ("Growth by threads of one process", "threads", True),
    "shards": ("Growth by shards in one process", "shards", False),
    "trainers": ("Growth by trainers on one machine", "trainers", False),
}


def read_results(directory):
    """{name: result} of the files NAME.json that are there."""
    results = {}
    for name in tables.SECTIONS:
        path = directory / f"{name}.json"
        if path.is_file():
            results[name] = json.loads(path.read_text(encoding="utf-8"))
    return results


def draw(results, directory):
    """Draws what was measured into `directory`; returns the names of the plots."""
    import plots  # needs matplotlib, which showing one result does not

    directory.mkdir(parents=True, exist_ok=True)
    drawn = set()
    for name, (title, label, logarithmic) in CURVES.items():
        points = page.lookup(results, f"growth.curves.{name}.points")
        if points:
            plots.curve(directory / f"growth_{name}.svg", title, label, points, logarithmic)
            drawn.add(f"growth_{name}")
    if page.lookup(results, "train.dense_samples_per_second"):
        title = f"Training, {results['train']['labels']:,} labels, one machine"
        plots.bars(directory / "train.svg", title, "samples/s", [
            ("dslide", results["train"]["samples_per_second"]),
            ("dense baseline", results["train"]["dense_samples_per_second"])])
        drawn.add("train")
    if "cluster" in results:
        cluster = results["cluster"]
        title = f"Training over slow links, {cluster['labels']:,} labels"
        measured = [
            ("dslide, 1 Gbit/s", cluster["samples_per_second_1gbit"]),
            ("dslide, 100 Mbit/s", cluster["samples_per_second_100mbit"]),
            ("dense, 1 Gbit/s", cluster["dense_samples_per_second_1gbit"]),
            ("dense, 1 Gbit/s, if overlapped",
             cluster["dense_samples_per_second_1gbit_overlapped"])]
        plots.bars(directory / "cluster.svg", title, "samples/s",
                   [pair for pair in measured if pair[1] is not None])
        drawn.add("cluster")
    limited = [kernel for kernel in page.lookup(results, "micro.kernels") or []
               if kernel.get("share_of_limit") is not None]
    if limited:
        plots.bars(directory / "micro.svg", "Kernels beside the machine's own limits",
                   "share of the limit, %",
                   [(kernel["name"], 100 * kernel["share_of_limit"]) for kernel in limited])
        drawn.add("micro")
    return drawn


def make(results, output):
    template = (HERE / "benchmarks.template").read_text(encoding="utf-8")
    drawn = draw(results, output / "benchmarks")
    # A plot without results would be an old one.
    for path in (output / "benchmarks").glob("*.svg"):
        if path.stem not in drawn:
            path.unlink()
    text = page.fill(template, results, facts.of(results), drawn)
    (output / "benchmarks.md").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--show", nargs=2, metavar=("NAME", "FILE"))
    parser.add_argument("--plot-neighbours", nargs=2, metavar=("FILE", "SVG"), type=pathlib.Path)
    options = parser.parse_args()
    if options.plot_neighbours:
        import plots

        path, svg = options.plot_neighbours
        result = json.loads(path.read_text(encoding="utf-8"))
        plots.search_costs(svg, neighbour_tables.panels(result))
        return 0
    if options.show:
        name, path = options.show
        if name not in SHOWN:
            parser.error(f"--show: no benchmark '{name}'; there are: {', '.join(SHOWN)}")
        result = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        print(SHOWN[name](result) + "\n\n" + tables.origin(result))
        return 0
    if options.results is None or options.output is None:
        parser.error("give --results and --output, or --show")
    results = read_results(options.results)
    make(results, options.output)
    missing = [name for name in tables.SECTIONS if name not in results]
    print(f"wrote {options.output / 'benchmarks.md'}"
          + (f"; not measured: {', '.join(missing)}" if missing else ""), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
