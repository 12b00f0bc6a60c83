"""The Python client beside generated stubs and the C++ trainer: rows and training.

usage: python_benchmark.py --bin-dir DIR [--model FILE] [--steps N] [--quick] [-o json]

Rows: gathers and scatters of 10,000 and 100,000 random rows of 128 floats from one and two shards
on this machine, one call at a time; the baseline reads the same rows with a plain loop over the
generated stubs. Where the machine paces what it sends, this part runs in a network namespace that
does not (bench/rpc/rpc_benchmark.py). Training: two
shard processes and one trainer of the 670 K spec, in C++ and in Python in turn, each on a fresh
cluster. Medians; what is measured in one round stands beside each other.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "common"))
sys.path.insert(0, str(ROOT / "bench" / "rpc"))
sys.path.insert(0, str(ROOT / "tools" / "common"))

import measurement  # noqa: E402
import programs  # noqa: E402
import python_package  # noqa: E402
import rpc_benchmark  # noqa: E402
from measurement import say  # noqa: E402
from programs import processes  # noqa: E402

SHARDS = 2
RUN_SECONDS = 600
SHAPE = ["--features", 135_909, "--labels", 670_091, "--points", 50_000, "--eval-points", 0]
QUICK_SHAPE = ["--features", 2000, "--labels", 5000, "--points", 4000, "--eval-points", 0]


class Child:
    """Runs measure_client.py in the environment of the package."""

    def __init__(self, python, package):
        self._python, self._variables = python, python_package.variables(package)

    def run(self, *arguments, wrapper=()):
        done = subprocess.run(
            [*wrapper, self._python, ROOT / "bench/python/measure_client.py", *map(str, arguments)],
            env=self._variables, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
            check=True, timeout=RUN_SECONDS)
        return json.loads(done.stdout.splitlines()[-1])


def start_cluster(started):
    return processes.Cluster(started.start(
        "dslide", "up", "-o", "json", "--listen", f"127.0.0.1:{processes.free_port()}",
        "--shards", SHARDS, "--log-dir", started.directory / "logs"))


def measure_rows(options, child):
    paced = rpc_benchmark.paces()
    why_not = rpc_benchmark.why_not_isolated() if paced else None
    if why_not is not None:
        say(f"Rows: the machine paces what it sends, and {why_not}")
    wrapper = rpc_benchmark.ISOLATED if paced and why_not is None else ()
    say("Rows")
    return [figures for shards in (1, SHARDS) for figures in child.run(
        "rows", options.bin_dir.resolve() / "dslide", shards,
        *(["--quick"] if options.quick else []), wrapper=wrapper)]


def train_once(options, child, language):
    with programs.Programs(options.bin_dir) as started:
        data = started.data(QUICK_SHAPE if options.quick else SHAPE)
        cluster = start_cluster(started)
        if language == "python":
            report = child.run("train", cluster.address, options.model, data["train"], options.steps)
        else:
            report = started.run_json(
                "dslide", "train", "-q", "-o", "json", "--cluster", cluster.address, "--model",
                options.model, "--data", data["train"], "--steps", options.steps,
                "--validation-fraction", 0, within=RUN_SECONDS)
    say(f"  {language}: {report['samples_per_second']:,.0f} samples/s, loss {report['loss']:.3f}")
    return report


def measure_training(options, child):
    say(f"Training: {options.model.stem}, {options.steps} steps")
    reports = {"cpp": [], "python": []}
    for _ in range(options.repeats):
        for language, mine in reports.items():
            mine.append(train_once(options, child, language))
    figures = {}
    for language, mine in reports.items():
        speeds = [report["samples_per_second"] for report in mine]
        figures[language] = {"samples_per_second": measurement.median(speeds),
                             "spread": measurement.spread(speeds), "repeats": len(speeds),
                             "loss": measurement.median([report["loss"] for report in mine])}
    figures["python_over_cpp"] = (figures["python"]["samples_per_second"]
                                  / figures["cpp"]["samples_per_second"])
    return {**figures, "model": options.model.stem, "steps": options.steps}


def measure(options):
    with programs.Programs(options.bin_dir) as started:
        machine = started.run_json("dslide-bench", "machine", within=20)
        child = Child(*python_package.install(started.directory))
        started.data(QUICK_SHAPE if options.quick else SHAPE)  # kept for the runs
        foreign = measurement.ForeignLoad()
        result = {"rows": measure_rows(options, child), "training": measure_training(options, child)}
    return result | {"shards": SHARDS, "quick": options.quick} | machine | {
        "foreign_load": foreign.processors()}


def lines(result):
    out = []
    for figures in result["rows"]:
        out.append(f"{figures['rows']:,} rows of {figures['shards']} shards: gather {figures['gather_gbps']:.2f} GB/s (generated "
                   f"stubs {figures['stubs_gather_gbps']:.2f}), scatter {figures['scatter_gbps']:.2f}")
    training = result["training"]
    out.append(f"training: {training['python']['samples_per_second']:,.0f} samples/s, C++ "
               f"{training['cpp']['samples_per_second']:,.0f}: "
               f"{100 * training['python_over_cpp']:.0f} %")
    return [*out, measurement.footer(result)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "docs/models/wide-670k.json")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    options.model = options.model.resolve()
    if options.quick:
        options.steps, options.repeats = min(options.steps, 10), 1
    return options


def main():
    options = parse()
    result = measure(options)
    measurement.report(result, options.output == "json", lines(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
