"""Samples per second as a model or a cluster grows: rows, width, threads, shards, trainers.

usage: growth_benchmark.py --bin-dir DIR [--curves rows,compact,hidden,threads,shards,trainers]
           [--steps N] [--quick] [-o json]

Everything but the curve's own axis is as the model spec has it: active rows, tail, tables, batch
and optimizer. The rows of `compact` have weights in bf16 and one number of optimizer state
(row-wise Adagrad), all others the spec's. The number of rows chooses K and how often the hash
tables are built. Every point is a fresh training on generated data and comes with its resident
memory. A point that fails, or needs more memory than the machine has free, is left out and named.
"""

import argparse
import json
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import measurement  # noqa: E402
import programs  # noqa: E402
from measurement import say  # noqa: E402
from programs import processes  # noqa: E402

CURVES = {
    # Each but the first two of a curve with a tenth of its rows beside it.
    "rows": [10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000],
    "compact": [100_000, 500_000, 1_000_000, 5_000_000],
    "hidden": [64, 128, 256, 512],
    "threads": [1, 2, 4, 8, 16, 32, 64],
    "shards": [1, 2, 4, 8],
    "trainers": [1, 2, 4],
}
QUICK_CURVES = {"rows": [1000, 3000], "compact": [1000, 3000], "hidden": [16, 32],
                "threads": [1, 2], "shards": [1, 2], "trainers": [1, 2]}
# What a curve varies, where that is not its name.
AXES = {"compact": "rows"}
# Where the other curves stand; no threads: all of the machine.
BASE = {"rows": 160_000, "hidden": 128, "threads": 0, "shards": 1, "trainers": 1}
QUICK_BASE = BASE | {"rows": 2000, "hidden": 32}
FEATURES = 50_000
POINTS = 20_000
RUN_SECONDS = 600
# Millions of rows take long to create.
CALL_TIMEOUT = "300s"
# A point that takes longer than this is not repeated.
LONG_SECONDS = 40


def needed_bytes(point):
    """Weights, two moments and hash tables of head and input, and some room."""
    floats = 3 * (point["rows"] + FEATURES) * (point["hidden"] + 16)
    return 4 * floats + 2 * 4 * 12 * point["rows"] + 2e9


def available_bytes():
    text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
    return 1024 * int(re.search(r"^MemAvailable: *(\d+)", text, re.MULTILINE).group(1))


def peak_bytes(pid):
    """The largest resident memory that a running process has had."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return 1024 * int(re.search(r"^VmHWM:\s*(\d+)", text, re.MULTILINE).group(1))


def write_spec(options, directory, curve, hidden):
    """The model of the cluster benchmark with another width; the data decide about the rows, and
    the rows about K and how often the hash tables are built."""
    spec = json.loads(options.model.read_text(encoding="utf-8"))
    for table in spec["tables"]:
        table["dim"] = hidden
        if table["role"] == "head":
            table["head"]["hash"] |= {"codes_per_table": 0, "rebuild_every_steps": 0}
            if curve == "compact":
                table["precision"] = "bf16_weights"
                table["optimizer"]["kind"] = "row_wise_adagrad"
    spec["name"] = "growth"
    path = directory / "model.json"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return path


def training_flags(options, started, data, curve, point):
    return ["-q", "-o", "json", "--data", data["train"], "--validation-fraction", 0, "--timeout",
            CALL_TIMEOUT, "--epochs", 1000, "--model",
            write_spec(options, started.directory, curve, point["hidden"])]


def train_embedded(options, started, data, curve, point):
    report = started.run_json("dslide", "train", *training_flags(options, started, data, curve, point),
                              "--steps", options.steps, "--threads", point["threads"],
                              "--shards", point["shards"], within=RUN_SECONDS)
    return report, report["peak_rss_bytes"]


def train_on_processes(options, started, data, curve, point):
    """Several trainers share one job on a cluster of processes; the sum of what they did."""
    cluster = processes.Cluster(started.start(
        "dslide", "up", "-o", "json", "--listen", f"127.0.0.1:{processes.free_port()}",
        "--shards", point["shards"], "--log-dir", started.directory / "logs"))
    steps = max(1, options.steps // point["trainers"])
    trainers = [
        started.start("dslide", "train", *training_flags(options, started, data, curve, point),
                      "--cluster", cluster.address, "--job", "growth", "--steps", steps)
        for _ in range(point["trainers"])
    ]
    reports = [programs.finish_json(trainer, RUN_SECONDS) for trainer in trainers]
    # Those of the shards and of the coordinator, as they stand; the trainers' as they report it.
    servers = sum(peak_bytes(pid) for pid in cluster.process.members())
    cluster.process.stop()
    samples = sum(report["samples_per_second"] * report["seconds"] for report in reports)
    total = dict(reports[0])
    total["samples_per_second"] = samples / max(report["seconds"] for report in reports)
    total["steps"] = sum(report["steps"] for report in reports)
    return total, servers + sum(report["peak_rss_bytes"] for report in reports)


def measure_point(options, curve, point):
    """Repeats a point; its figures, with the median of the samples per second."""
    shape = ["--features", FEATURES, "--labels", point["rows"], "--points", options.points,
             "--eval-points", 0]
    run = train_on_processes if curve == "trainers" else train_embedded
    speeds, reports, memory = [], [], []
    while not measurement.enough(speeds, options.min_repeats, options.max_repeats, 0.05):
        with programs.Programs(options.bin_dir) as started:
            data = started.data(shape)
            begin = measurement.time.monotonic()
            report, resident = run(options, started, data, curve, point)
        speeds.append(report["samples_per_second"])
        reports.append(report)
        memory.append(resident)
        if measurement.time.monotonic() - begin > LONG_SECONDS:
            break
    figures = {"x": point[AXES.get(curve, curve)], "samples_per_second": measurement.median(speeds),
               "rss_bytes": max(memory), "repeats": len(speeds),
               "spread": measurement.spread(speeds)}
    for field in ("steps", "distinct_rows_per_batch", "active_rows_per_sample"):
        figures[field] = reports[-1][field]
    figures["bytes_per_sample"] = ((reports[-1]["bytes_sent"] + reports[-1]["bytes_received"])
                                   / (reports[-1]["samples_per_second"] * reports[-1]["seconds"])
                                   if curve != "trainers" else None)
    say(f"  {curve} {figures['x']:,}: {figures['samples_per_second']:,.0f} samples/s, "
        f"{figures['rss_bytes'] / 1e9:.2f} GB")
    return figures


def measure_curve(options, curve, xs):
    say(f"Growth: {curve}")
    points, left_out = [], []
    for x in xs:
        if curve == "threads" and x > len(os.sched_getaffinity(0)):
            break
        point = options.base | {AXES.get(curve, curve): x}
        needed, available = needed_bytes(point), available_bytes()
        if needed > available:
            why = f"needs {needed / 1e9:.1f} GB, {available / 1e9:.1f} GB are available"
            say(f"  skipped: {curve} {x:,} {why}")
            left_out.append({"x": x, "why": why})
            continue
        try:
            points.append(measure_point(options, curve, point))
        except (AssertionError, RuntimeError) as error:
            # One point that fails does not cost the others.
            say(f"  FAILED: {curve} {x:,}: {error}")
            left_out.append({"x": x, "why": "failed: " + str(error).strip().splitlines()[-1]})
    return {"points": points, "left_out": left_out}


def lines(result):
    for curve in result["curves"]:
        yield f"{curve:>12} {'samples/s':>10} {'GB':>7} {'distinct rows':>14}"
        for point in result["curves"][curve]["points"]:
            yield (f"{point['x']:>12,} {point['samples_per_second']:>10,.0f} "
                   f"{point['rss_bytes'] / 1e9:>7.2f} {point['distinct_rows_per_batch']:>14,.0f}")
        for point in result["curves"][curve]["left_out"]:
            yield f"{point['x']:>12,} left out: {point['why']}"
    yield measurement.footer(result)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--curves", default=",".join(CURVES))
    parser.add_argument("--quick", action="store_true", help="tiny shapes: does it run at all?")
    parser.add_argument("--steps", type=int, help="steps of each point")
    parser.add_argument("--max-repeats", type=int)
    parser.add_argument("--model", type=pathlib.Path,
                        default=programs.ROOT / "docs/models/wide-670k.json")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    options.curves = options.curves.split(",")
    for curve in options.curves:
        if curve not in CURVES:
            parser.error(f"--curves: no curve '{curve}'; there are: {', '.join(CURVES)}")
    options.base = QUICK_BASE if options.quick else BASE
    options.points = 2000 if options.quick else POINTS
    options.steps = options.steps or (8 if options.quick else 500)
    options.max_repeats = options.max_repeats or (1 if options.quick else 2)
    options.min_repeats = min(2, options.max_repeats)
    return options


def main():
    options = parse()
    with programs.Programs(options.bin_dir) as started:
        machine = started.run_json("dslide-bench", "machine", within=20)
    foreign = measurement.ForeignLoad()
    xs = QUICK_CURVES if options.quick else CURVES
    curves = {curve: measure_curve(options, curve, xs[curve]) for curve in options.curves}
    points = [point for curve in curves.values() for point in curve["points"]]
    result = {
        "curves": curves,
        "base": options.base,
        "steps": options.steps,
        "repeats": max((point["repeats"] for point in points), default=0),
        "spread": max((point["spread"] for point in points), default=0.0),
        "quick": options.quick,
    } | machine | {"foreign_load": foreign.processors()}
    measurement.report(result, options.output == "json", lines(result))
    return 0 if points else programs.SKIPPED


if __name__ == "__main__":
    sys.exit(main())
