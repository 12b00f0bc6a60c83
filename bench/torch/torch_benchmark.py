"""The PyTorch head on shards beside PyTorch's own: equal steps, accuracy at a speed, a wide layer.

usage: torch_benchmark.py --bin-dir DIR [--parts equal,learn,wide] [--data NAME|FOLDER]
           [--points N] [--epochs N] [--steps N] [--dense-steps N] [--shards N] [--quick] [-o json]

A network with hidden layers of its own has one of the heads; everything else is the same. *equal*:
all rows active, every step beside the one of `nn.Linear` with cross-entropy; heads exported and
imported. *learn*: hashed rows beside all rows, on the same batches in turns, P@1 on the test
points. *wide*: 670,091 generated labels, beside each dense path of PyTorch. PyTorch is 6 GB and is
installed with --with-torch only.
"""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("bench/common", "bench/peers", "tools/common")]

import data_sets  # noqa: E402
import measurement  # noqa: E402
import programs  # noqa: E402
import python_package  # noqa: E402
from measurement import say  # noqa: E402

PARTS = ("equal", "learn", "wide")
PART_SECONDS = 7200
WIDE_SHAPE = ["--features", 135_909, "--labels", 670_091, "--points", 50_000, "--eval-points", 2000]
QUICK_SHAPE = ["--features", 500, "--labels", 1500, "--points", 600, "--eval-points", 100]
# As docs/models/wide-670k.json has it: the samples of a batch share what they find.
SHARED = {
    "codes_per_table": 10,
    "bucket_read_cap": 512,
    "ranked_per_active": 2,
    "searched_tables": 4,
    "proposed_per_sample": 10,
}


def settings_of(options, part):
    """What measure_torch.py reads, but for the data."""
    quick = options.quick
    if part == "equal":
        return {"batch": 64, "steps": 3 if quick else 100, "rates": {"sgd": 0.5, "adam": 0.001}}
    if part == "learn":
        budget = 100 if quick else 1000
        return {
            "batch": 256,
            "epochs": 1 if quick else options.epochs,
            "rate": 0.01,
            "decay": 0.05,
            "dropout": 0.5,
            # The first moment of a row that few steps touch is old news.
            "optimizer": {"beta1": 0.5},
            "hashed": {
                "max_active": budget,
                "tail_rows": 4 * budget,
                "tables": 24,
                "hash": {"rebuild_every_steps": 20},
            },
        }
    steps = 4 if quick else options.steps
    return {
        "batch": 256,
        "warm_up": steps // 2,
        "steps": steps,
        "dense_steps": 2 if quick else options.dense_steps,
        "test_points": 2000,
        "hashed": {"max_active": 100, "tail_rows": 64}
        if quick
        else {"max_active": 600, "tail_rows": 128, "hash": SHARED},
    }


def data_of(options, part, started):
    """{"train", "test"}: paths."""
    if part == "wide" or options.quick:
        paths = started.data(QUICK_SHAPE if options.quick else WIDE_SHAPE)
        return {"train": paths["train"], "test": paths["eval"]}
    try:
        found = data_sets.find(options.data, started, started.directory)
    except data_sets.Absent as error:
        say(f"{options.data} is not there ({error}): generated data of 41,457 labels instead")
        paths = started.data(
            ["--features", 20_000, "--labels", 41_457, "--points", 47_116, "--eval-points", 5000]
        )
        return {"train": paths["train"], "test": paths["eval"]}
    return {"train": str(found.train), "test": str(found.test)}


def measure_part(options, part, started, python, variables):
    settings = (
        settings_of(options, part)
        | data_of(options, part, started)
        | {
            "points": options.points,
            "shards": options.shards,
            "binary": str(options.bin_dir.resolve() / "dslide"),
        }
    )
    file = started.directory / f"{part}.json"
    file.write_text(json.dumps(settings))
    say(f"Measuring: {part}")
    done = subprocess.run(
        [python, HERE / "measure_torch.py", part, file],
        env=variables,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        check=True,
        timeout=PART_SECONDS,
    )
    return json.loads(done.stdout.splitlines()[-1])


def speedups(part, dense):
    """How many times as fast the hashed head is, by the clock and in processor time."""
    hashed = part["sides"]["hashed"]
    return {
        "speedup": hashed["samples_per_second"] / dense["samples_per_second"],
        "cpu_speedup": dense["cpu_seconds_per_thousand"] / hashed["cpu_seconds_per_thousand"],
    }


def compare(result):
    """Adds what follows from the sides."""
    if "learn" in result:
        sides = result["learn"]["sides"]
        result["learn"] |= speedups(result["learn"], sides["dense"]) | {
            "p_at_1_lost": sides["dense"]["p_at_1"] - sides["hashed"]["p_at_1"]
        }
    if "wide" in result:
        dense = {name: side for name, side in result["wide"]["sides"].items() if name != "hashed"}
        fastest = max(dense, key=lambda name: dense[name]["samples_per_second"])
        result["wide"] |= speedups(result["wide"], dense[fastest]) | {"fastest_dense": fastest}
    return result


def measure(options):
    torch = python_package.torch_packages(options.with_torch)
    if torch is None:
        say("skipped: PyTorch is not installed; it is 6 GB: ./run bench torch --with-torch")
        sys.exit(programs.SKIPPED)
    with programs.Programs(options.bin_dir) as started:
        machine = started.run_json("dslide-bench", "machine", within=20)
        python, package = python_package.install(started.directory)
        variables = python_package.variables(package, torch)
        foreign = measurement.ForeignLoad()
        result = {
            part: measure_part(options, part, started, python, variables) for part in options.parts
        }
    return (
        compare(result)
        | {"shards": options.shards, "quick": options.quick}
        | machine
        | {"foreign_load": foreign.processors()}
    )


def lines(result):
    out = []
    for kind, figures in result.get("equal", {}).get("optimizers", {}).items():
        worst = figures["largest_differences"]
        out.append(
            f"equal, {kind}: losses differ by {worst['loss']:.1e}, gradients of the hidden by "
            f"{worst['hidden_gradient']:.1e}, exported logits by "
            f"{figures['exported_logits']:.1e}; imported, {figures['imported_top_10']:.4f} of "
            "the best ten are the same"
        )
    for name in ("learn", "wide"):
        for side, figures in result.get(name, {}).get("sides", {}).items():
            out.append(
                f"{name}, {side}: {figures['samples_per_second']:,.0f} samples/s, "
                f"{figures['cpu_seconds_per_thousand']:.3f} CPU-s for 1,000"
            )
        if name in result:
            out.append(
                f"{name}: {result[name]['speedup']:.1f} times as fast, "
                f"{result[name]['cpu_speedup']:.1f} in processor time"
            )
    return [*out, measurement.footer(result)]


def parts(text):
    names = text.split(",")
    if set(names) - set(PARTS):
        raise argparse.ArgumentTypeError(f"{text!r}: there are {', '.join(PARTS)}")
    return names


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--parts", type=parts, default=list(PARTS), metavar="NAMES")
    parser.add_argument(
        "--data",
        default="debian-packages",
        metavar="NAME|FOLDER",
        help="of equal and learn: a set of ./run bench peers, or a folder",
    )
    parser.add_argument(
        "--points", type=int, default=0, help="of equal and learn: the first so many points; 0: all"
    )
    parser.add_argument("--epochs", type=int, default=12, help="of learn")
    parser.add_argument("--steps", type=int, default=400, help="of the hashed head in wide")
    parser.add_argument("--dense-steps", type=int, default=5, help="of each dense path in wide")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--with-torch", action="store_true", help="install PyTorch, 6 GB")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    return parser.parse_args()


def main():
    options = parse()
    result = measure(options)
    measurement.report(result, options.output == "json", lines(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
