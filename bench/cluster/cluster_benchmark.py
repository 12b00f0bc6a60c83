"""dslide on a cluster with slow links, beside dense data-parallel training over the same links.

usage: cluster_benchmark.py --bin-dir DIR [--with-torch | --no-torch] [--race-data NAME|FOLDER]
           [--race-steps N] [--race-limit SECONDS] [--quick] [-o json]

Two shards and a trainer (with the coordinator), each in a network namespace of its own, at 1 Gbit/s
and at 100 Mbit/s. Beside them, over the same links: our dense baseline, and where PyTorch is
installed DistributedDataParallel over gloo; then the time that each takes to one accuracy, on real
data. Ends with status 77 and says why where namespaces cannot be made.
"""

import argparse
import pathlib
import sys

_BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_BENCH / name) for name in ("common", "peers", "report")]

import data_parallel  # noqa: E402
import data_sets  # noqa: E402
import dense_baseline  # noqa: E402
import measurement  # noqa: E402
import programs  # noqa: E402
import race  # noqa: E402
import tables  # noqa: E402
from environment import Environment  # noqa: E402
from measurement import say  # noqa: E402
from shaped_cluster import SHARDS, ShapedCluster, shard_host  # noqa: E402
from shaped_network import NetworkUnavailable, ShapedNetwork  # noqa: E402

# Sixteen epochs of debian-packages, and half of one: a multiple of the 16 batches of a lease.
RACE_STEPS, RACE_EVERY = 3072, 96


def train_at(options, network, data, rate):
    """Repeats until the spread is small; the median run and the spread."""
    network.shape(rate)
    reports = []
    speeds = []
    while not measurement.enough(speeds, options.min_repeats, options.max_repeats, 0.05):
        say(f"{rate}: run {len(speeds) + 1} of at most {options.max_repeats}")
        with programs.Programs(options.bin_dir) as started:
            flags = ["--model", options.model, "--steps", options.steps, "--epochs", 1000,
                     "--validation-fraction", 0]
            reports.append(ShapedCluster(started, network).train(data["train"], flags))
        speeds.append(reports[-1]["samples_per_second"])
        say(f"  {speeds[-1]:.1f} samples/s")
    middle = measurement.median(speeds)
    report = min(reports, key=lambda one: abs(one["samples_per_second"] - middle))
    return report | {"samples_per_second": middle, "repeats": len(speeds),
                     "spread": measurement.spread(speeds)}


def dense_figures(options, network, data):
    try:
        worker = dense_baseline.compute(options.bin_dir, data["train"], options.dense)
    except programs.Skipped as reason:
        say(f"skipped: {reason}")
        return None
    network.shape("1gbit")
    return dense_baseline.exchange(network, worker, options.dense)


def torch_python(options):
    """The interpreter that has PyTorch; None, said aloud, where there is none."""
    if options.no_torch:
        why = "left out by --no-torch"
    else:
        found = Environment("torch", may_install=options.with_torch)
        why = found.why_not("torch")
        if why is None:
            return found.python
    say(f"skipped: PyTorch DistributedDataParallel, and time to equal accuracy: {why}")
    return None


def data_parallel_at(options, network, data, python, rate):
    """A few steps on the wide data."""
    say(f"PyTorch DistributedDataParallel at {rate}")
    network.shape(rate)
    spec = measurement.json.loads(options.model.read_text(encoding="utf-8"))
    settings = data_parallel.Settings.of_spec(
        spec, data["train"], test="", steps=1 + options.dense.steps, evaluate_every=0,
        limit_seconds=0)
    with programs.Programs(options.bin_dir) as started:
        report = data_parallel.train(started, network, python, settings)
    say(f"  {report['samples_per_second']:.1f} samples/s")
    return report


def run_race(options, network, python):
    return race.Race(
        race.Options(
            bin_dir=options.bin_dir, python=python, data=options.race_data,
            steps=options.race_steps, evaluate_every=options.race_every,
            limit_seconds=options.race_limit, dense=options.dense,
            min_repeats=options.min_repeats, max_repeats=options.max_repeats,
            rates=options.rates), network).run()


def beside_torch(options, network, data):
    """What needs PyTorch; a part that fails does not cost the others."""
    python = torch_python(options)
    figures = {"data_parallel": None, "race": None}
    if python is None:
        return figures
    # Its processes end with "terminate called without an active exception" now and then.
    for _ in range(2):
        try:
            figures["data_parallel"] = {
                rate: data_parallel_at(options, network, data, python, rate)
                for rate in options.rates}
            figures["race"] = run_race(options, network, python)
            break
        except data_sets.Absent as why:
            say(f"skipped: time to equal accuracy: data set {options.race_data}: {why}")
            break
        except (AssertionError, RuntimeError) as error:
            say(f"FAILED: beside PyTorch: {error}")
    return figures


def per_sample(dense):
    return dense_baseline.bytes_per_sample(dense) if dense else None


def quotient(a, b):
    return a / b if a is not None and b else None


def shape_of(options, data):
    with open(data["train"], encoding="ascii") as lines_of_data:
        points, features, labels = map(int, next(lines_of_data).split())
    spec = measurement.json.loads(options.model.read_text(encoding="utf-8"))
    return {"features": features, "hidden": spec["tables"][0]["dim"], "labels": labels,
            "points": points}


def measure(options):
    with programs.Programs(options.bin_dir) as started:
        data = started.data(options.shape)
        machine = started.run_json("dslide-bench", "machine", within=20)
    foreign = measurement.ForeignLoad()
    hosts = ["trainer", *(shard_host(shard) for shard in range(SHARDS))]
    with ShapedNetwork(hosts) as network:
        fast = train_at(options, network, data, "1gbit")
        slow = train_at(options, network, data, "100mbit")
        dense = dense_figures(options, network, data)
        torch = beside_torch(options, network, data)
        control = network.congestion_control()
    ours, slowest = fast["samples_per_second"], slow["samples_per_second"]
    sequential = dense and dense["samples_per_second"]
    overlapped = dense and dense["samples_per_second_overlapped"]
    bytes_per_sample = SHARDS * fast["bytes_per_sample_and_shard"]
    return {
        "samples_per_second_1gbit": ours,
        "samples_per_second_100mbit": slowest,
        "dense_samples_per_second_1gbit": sequential,
        "dense_samples_per_second_1gbit_overlapped": overlapped,
        "speedup_vs_dense_1gbit": quotient(ours, sequential),
        "speedup_vs_dense_1gbit_overlapped": quotient(ours, overlapped),
        "bytes_per_sample_and_shard": fast["bytes_per_sample_and_shard"],
        "bytes_per_sample": bytes_per_sample,
        "dense_bytes_per_sample_and_worker": per_sample(dense),
        "saved_ratio": quotient(per_sample(dense), bytes_per_sample),
        "1gbit": fast,
        "100mbit": slow,
        "dense": dense,
        "shards": SHARDS,
        "repeats": fast["repeats"],
        "spread": max(fast["spread"], slow["spread"]),
        "congestion_control": control,
        "quick": options.quick,
    } | torch | shape_of(options, data) | machine | {"foreign_load": foreign.processors()}


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 on")
    return int(text)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="tiny shapes: does it run at all?")
    parser.add_argument("--steps", type=positive, help="steps of each run")
    parser.add_argument("--dense-steps", type=positive)
    parser.add_argument("--model", type=pathlib.Path,
                        default=programs.ROOT / "docs/models/wide-670k.json")
    parser.add_argument("--max-repeats", type=positive)
    torch = parser.add_mutually_exclusive_group()
    torch.add_argument("--with-torch", action="store_true",
                       help="install PyTorch, 6 GB; without, one that is installed is used")
    torch.add_argument("--no-torch", action="store_true", help="dslide and our baseline alone")
    parser.add_argument("--race-data", metavar="NAME|FOLDER",
                        help="of the time to equal accuracy; default: debian-packages, real data "
                        "that any Debian machine can make")
    parser.add_argument("--race-steps", type=positive, help="of each training")
    parser.add_argument("--race-limit", type=positive, metavar="SECONDS", default=600,
                        help="of each training; what takes longer has not reached the accuracy")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    spec = measurement.json.loads(options.model.read_text(encoding="utf-8"))
    options.model = options.model.resolve()
    tiny = ["--features", 2000, "--labels", 5000, "--points", 2000]
    options.shape = tiny if options.quick else []
    options.steps = options.steps or (6 if options.quick else 300)
    options.dense = dense_baseline.Sizes(
        batch=spec["training"]["batch_size"], hidden=spec["tables"][0]["dim"],
        steps=options.dense_steps or (2 if options.quick else 3),
        all_reduces=1 if options.quick else 2)
    options.max_repeats = options.max_repeats or (1 if options.quick else 3)
    options.min_repeats = min(2, options.max_repeats)
    options.race_data = options.race_data or (data_sets.QUICK_NAMES[0] if options.quick
                                              else "debian-packages")
    options.race_steps = options.race_steps or (4 if options.quick else RACE_STEPS)
    options.race_every = 2 if options.quick else RACE_EVERY
    # Each rate of what needs PyTorch starts it twice, which takes longer than all else here.
    options.rates = race.RATES[:1] if options.quick else race.RATES
    return options


def main():
    options = parse()
    try:
        result = measure(options)
    except NetworkUnavailable as error:
        print(f"skipped: {error}", file=sys.stderr)
        return programs.SKIPPED
    measurement.report(result, options.output == "json",
                       [tables.cluster(result), measurement.footer(result)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
