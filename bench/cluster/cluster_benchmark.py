"""dslide on a cluster with slow links, beside dense data-parallel training over the same links.

usage: cluster_benchmark.py --bin-dir DIR [--quick] [-o json]

Two shards and a trainer (with the coordinator), each in a network namespace of its own, at 1 Gbit/s
and at 100 Mbit/s. The dense figure is made of two measurements: a step of two workers with half a
batch each, at the same time on this machine, and a ring all-reduce of the bytes of their gradients
over the same 1 Gbit/s links. Ends with status 77 and says why where namespaces cannot be made.
"""

import argparse
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import measurement  # noqa: E402
import programs  # noqa: E402
from measurement import say  # noqa: E402
from programs import processes  # noqa: E402
from shaped_network import NetworkUnavailable, ShapedNetwork  # noqa: E402

SHARDS = 2
WORKERS = 2
COORDINATOR_PORT = 7000
SHARD_PORT = 7010
ALL_REDUCE_PORT = 7020
TRAIN_SECONDS = 900
HERE = pathlib.Path(__file__).resolve().parent


def shard_host(shard):
    return f"shard{shard}"


def listen(network, host, port):
    address = network.address(host)
    return ["--listen", f"{address}:{port}", "--admin", "", "--insecure"]


def train_once(options, network, data):
    """One training on a fresh cluster; its report with the kernel's counts."""
    with programs.Programs(options.bin_dir) as started:
        coordinator = started.start(
            "dslide-coordinator", *listen(network, "trainer", COORDINATOR_PORT),
            "--shards", SHARDS, wrapper=network.inside("trainer"))
        coordinator.wait_for_stderr(r" address=(\S+)")
        address = f"{network.address('trainer')}:{COORDINATOR_PORT}"
        for shard in range(SHARDS):
            process = started.start(
                "dslide-shard", "--coordinator", address,
                *listen(network, shard_host(shard), SHARD_PORT),
                wrapper=network.inside(shard_host(shard)))
            process.wait_for_stderr(r" shard ready ")
        before = [network.bytes(shard_host(shard)) for shard in range(SHARDS)]
        report = started.run_json(
            "dslide", "train", "-q", "-o", "json", "--cluster", address, "--insecure",
            "--data", data["train"], "--model", options.model, "--steps", options.steps,
            "--epochs", 1000, "--validation-fraction", 0, "--timeout", "300s",
            within=TRAIN_SECONDS, wrapper=network.inside("trainer"))
        moved = [network.bytes(shard_host(shard)) - before[shard] for shard in range(SHARDS)]
    samples = report["samples_per_second"] * report["seconds"]
    report["samples"] = samples
    report["bytes_per_sample_and_shard"] = sum(moved) / SHARDS / samples
    return report


def train_at(options, network, data, rate):
    """Repeats until the spread is small; the median run and the spread."""
    network.shape(rate)
    reports = []
    speeds = []
    while not measurement.enough(speeds, options.min_repeats, options.max_repeats, 0.05):
        say(f"{rate}: run {len(speeds) + 1} of at most {options.max_repeats}")
        reports.append(train_once(options, network, data))
        speeds.append(reports[-1]["samples_per_second"])
        say(f"  {speeds[-1]:.1f} samples/s")
    middle = measurement.median(speeds)
    report = min(reports, key=lambda one: abs(one["samples_per_second"] - middle))
    return report | {"samples_per_second": middle, "repeats": len(speeds),
                     "spread": measurement.spread(speeds)}


def dense_workers(options, data):
    """Workers that share the machine, half a batch each; the report of the slowest."""
    with programs.Programs(options.bin_dir) as started:
        threads = max(1, len(processes.os.sched_getaffinity(0)) // WORKERS)
        say(f"Dense baseline: {WORKERS} workers at once, {threads} thread(s) each")
        workers = [
            started.start("dslide-bench", "dense", "--data", data["train"], "--batch",
                          options.batch // WORKERS, "--threads", threads, "--steps",
                          options.dense_steps, "-o", "json")
            for _ in range(WORKERS)
        ]
        reports = [programs.finish_json(worker, TRAIN_SECONDS) for worker in workers]
    # They wait for each other in every step.
    return max(reports, key=lambda report: report["step_seconds"])


def all_reduce(options, network, count):
    """Seconds of all-reduces of `count` bytes between two shaped hosts."""
    say(f"Ring all-reduce of {count / 1e6:.0f} MB, {options.all_reduces} times")
    address = f"{network.address(shard_host(0))}:{ALL_REDUCE_PORT}"

    def command(host, side):
        return [*network.inside(host), sys.executable, str(HERE / "ring_all_reduce.py"), side,
                address, "--bytes", str(count), "--repeats", str(options.all_reduces)]

    with subprocess.Popen(command(shard_host(0), "--listen")) as listener:
        try:
            done = subprocess.run(command(shard_host(1), "--connect"), capture_output=True,
                                  text=True, check=True, timeout=TRAIN_SECONDS)
        except BaseException:
            listener.kill()
            raise
        listener.wait()
    return measurement.json.loads(done.stdout)["seconds"]


def dense_figures(options, network, data):
    worker = dense_workers(options, data)
    network.shape("1gbit")
    seconds = all_reduce(options, network, worker["gradient_bytes"])
    compute, communicate = worker["step_seconds"], measurement.median(seconds)
    return {
        "workers": WORKERS,
        "batch": options.batch,
        "compute_seconds": compute,
        "compute_spread": worker["spread"],
        "all_reduce_seconds": communicate,
        "all_reduce_spread": measurement.spread(seconds),
        "all_reduce_bytes": worker["gradient_bytes"],
        "samples_per_second": options.batch / (compute + communicate),
        # As if all communication were hidden behind computation, or the other way round.
        "samples_per_second_overlapped": options.batch / max(compute, communicate),
        "blas": worker["blas"],
    }


def per_sample(dense, options):
    """Bytes of a sample on a dense worker's link: the gradient once in each direction, each step."""
    return 2 * dense["all_reduce_bytes"] / options.batch if dense else None


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
        try:
            dense = dense_figures(options, network, data)
        except programs.Skipped as reason:
            say(f"skipped: {reason}")
            dense = None
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
        "dense_bytes_per_sample_and_worker": per_sample(dense, options),
        "saved_ratio": quotient(per_sample(dense, options), bytes_per_sample),
        "1gbit": fast,
        "100mbit": slow,
        "dense": dense,
        "shards": SHARDS,
        "repeats": fast["repeats"],
        "spread": max(fast["spread"], slow["spread"]),
        "congestion_control": control,
        "quick": options.quick,
    } | shape_of(options, data) | machine | {"foreign_load": foreign.processors()}


def lines(result):
    yield f"dslide at 1 Gbit/s     {result['samples_per_second_1gbit']:9.1f} samples/s"
    yield f"dslide at 100 Mbit/s   {result['samples_per_second_100mbit']:9.1f} samples/s"
    yield f"  bytes per sample and shard {result['bytes_per_sample_and_shard']:,.0f}"
    dense = result["dense"]
    if dense:
        yield (f"dense at 1 Gbit/s      {dense['samples_per_second']:9.1f} samples/s  "
               f"({dense['compute_seconds']:.2f} s computing + {dense['all_reduce_seconds']:.2f} s "
               f"all-reduce of {dense['all_reduce_bytes'] / 1e6:.0f} MB; perfectly overlapped "
               f"{dense['samples_per_second_overlapped']:.1f})")
        yield (f"speedup                {result['speedup_vs_dense_1gbit']:9.1f}  "
               f"(against perfect overlap {result['speedup_vs_dense_1gbit_overlapped']:.1f})")
        yield f"bytes saved            {result['saved_ratio']:9.1f} times fewer per sample"
    yield measurement.footer(result)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="tiny shapes: does it run at all?")
    parser.add_argument("--steps", type=int, help="steps of each run")
    parser.add_argument("--dense-steps", type=int)
    parser.add_argument("--model", type=pathlib.Path,
                        default=programs.ROOT / "docs/models/wide-670k.json")
    parser.add_argument("--max-repeats", type=int)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    options.batch = measurement.json.loads(options.model.read_text())["training"]["batch_size"]
    options.model = options.model.resolve()
    options.shape = ["--features", 2000, "--labels", 5000, "--points", 2000] if options.quick else []
    options.steps = options.steps or (6 if options.quick else 300)
    options.dense_steps = options.dense_steps or (2 if options.quick else 3)
    options.max_repeats = options.max_repeats or (1 if options.quick else 3)
    options.min_repeats = min(2, options.max_repeats)
    options.all_reduces = 1 if options.quick else 2
    return options


def main():
    options = parse()
    try:
        result = measure(options)
    except NetworkUnavailable as error:
        print(f"skipped: {error}", file=sys.stderr)
        return programs.SKIPPED
    measurement.report(result, options.output == "json", lines(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
