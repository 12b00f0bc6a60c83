"""Models that fill a machine: does what `dslide plan` promises come true?

usage: capacity_benchmark.py --bin-dir DIR [--cases billion,four-billion] [--steps N] [--quick]
           [-o json]

Four shard processes hold a model of one billion parameters (Adam, f32), then one of four billion
(weights in bf16, row-wise Adagrad), on generated data. Beside the rate each reports its loss at the
start and at the end, and the resident memory of the fullest shard beside the plan's. A case that
needs more memory than the machine has free is left out and named.
"""

import argparse
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import measurement  # noqa: E402
import programs  # noqa: E402
from measurement import say  # noqa: E402
from programs import processes  # noqa: E402

SHARDS = 4
BATCH = 256
CASES = {
    "billion": {"rows": 7_800_000, "precision": "f32", "optimizer": "adam",
                "learning_rate": 0.01},
    "four-billion": {"rows": 31_000_000, "precision": "bf16_weights",
                     "optimizer": "row-wise-adagrad", "learning_rate": 0.05},
}
QUICK_ROWS = {"billion": 40_000, "four-billion": 160_000}
FEATURES = 100_000
POINTS = 20_000
WIDTH = 128
RUN_SECONDS = 1800
# Millions of rows take long to create.
CALL_TIMEOUT = "600s"
# Of the machine's free memory, for the trainer and everything else.
ROOM_BYTES = 1.5e9


def proc_status(pid, field):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return re.search(rf"^{field}:\s*(\S+)", text, re.MULTILINE).group(1)


def available_bytes():
    text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
    return 1024 * int(re.search(r"^MemAvailable: *(\d+)", text, re.MULTILINE).group(1))


def model_flags(case):
    """What `dslide plan` and `dslide train` are both told."""
    return ["--dim", WIDTH, "--batch", BATCH, "--precision", case["precision"], "--optimizer",
            case["optimizer"], "--learning-rate", case["learning_rate"]]


def train(started, case, data, steps):
    """(the trainer's report, the peak memory of the fullest shard)"""
    cluster = processes.Cluster(started.start(
        "dslide", "up", "-o", "json", "--listen", f"127.0.0.1:{processes.free_port()}",
        "--shards", SHARDS, "--log-dir", started.directory / "logs"))
    trainer = started.start(
        "dslide", "train", "-q", "-o", "json", "--data", data["train"], "--cluster",
        cluster.address, "--job", "capacity", "--validation-fraction", 0, "--epochs", 1000,
        "--steps", steps, "--timeout", CALL_TIMEOUT, *model_flags(case))
    report = programs.finish_json(trainer, RUN_SECONDS)
    shards = [pid for pid in cluster.process.members()
              if proc_status(pid, "Name") == "dslide-shard"]
    fullest = max(1024 * int(proc_status(pid, "VmHWM")) for pid in shards)
    cluster.process.stop()
    return report, fullest


def measure(options, name):
    case = CASES[name]
    rows = QUICK_ROWS[name] if options.quick else case["rows"]
    with programs.Programs(options.bin_dir) as started:
        data = started.data(["--features", FEATURES, "--labels", rows, "--points", options.points,
                             "--eval-points", 0])
        plan = started.run_json("dslide", "plan", "--rows", rows, "--features", FEATURES,
                                "--shards", SHARDS, *model_flags(case), "-o", "json", within=60)
        needed, available = plan["all_shards_bytes"] + ROOM_BYTES, available_bytes()
        if needed > available:
            return {"left_out": f"needs {needed / 1e9:.1f} GB, {available / 1e9:.1f} GB are free"}
        say(f"{name}: {plan['parameters']:,} parameters, {plan['all_shards_bytes'] / 1e9:.1f} GB planned")
        report, fullest = train(started, case, data, options.steps)
    figures = case | {
        "rows": rows,
        "parameters": plan["parameters"],
        "planned_shard_bytes": plan["shard_bytes"],
        "shard_bytes": fullest,
        "bytes_against_plan": fullest / plan["shard_bytes"],
    }
    for field in ("samples_per_second", "steps", "seconds", "first_loss", "loss",
                  "distinct_rows_per_batch", "dense_equivalent_bytes"):
        figures[field] = report[field]
    figures["bytes_moved"] = report["bytes_sent"] + report["bytes_received"]
    say(f"{name}: loss {figures['first_loss']:.2f} -> {figures['loss']:.2f}, "
        f"{figures['shard_bytes'] / 1e9:.2f} GB in the fullest shard "
        f"({100 * figures['bytes_against_plan']:.1f} % of the plan), "
        f"{figures['samples_per_second']:,.0f} samples/s")
    return figures


def lines(result):
    for name, case in result["cases"].items():
        if "left_out" in case:
            yield f"{name:>14} left out: {case['left_out']}"
            continue
        yield (f"{name:>14} {case['parameters']:>14,} parameters  {case['shard_bytes'] / 1e9:6.2f} GB "
               f"a shard, {100 * case['bytes_against_plan']:.1f} % of the plan  loss "
               f"{case['first_loss']:.2f} -> {case['loss']:.2f}  "
               f"{case['samples_per_second']:,.0f} samples/s")
    yield measurement.footer(result)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--quick", action="store_true", help="tiny shapes: does it run at all?")
    parser.add_argument("--steps", type=int, help="steps of each case")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    options.cases = options.cases.split(",")
    for case in options.cases:
        if case not in CASES:
            parser.error(f"--cases: no case '{case}'; there are: {', '.join(CASES)}")
    options.points = 1000 if options.quick else POINTS
    options.steps = options.steps or (8 if options.quick else 400)
    return options


def main():
    options = parse()
    with programs.Programs(options.bin_dir) as started:
        machine = started.run_json("dslide-bench", "machine", within=20)
    foreign = measurement.ForeignLoad()
    result = {
        "cases": {name: measure(options, name) for name in options.cases},
        "shards": SHARDS,
        "hidden": WIDTH,
        "quick": options.quick,
        "repeats": 1,
        "spread": 0.0,
    } | machine | {"foreign_load": foreign.processors()}
    measurement.report(result, options.output == "json", lines(result))
    measured = [case for case in result["cases"].values() if "left_out" not in case]
    if not measured:
        say("skipped: no case fits into this machine's memory")
    return 0 if measured else programs.SKIPPED


if __name__ == "__main__":
    sys.exit(main())
