"""Predictions of one thread: time, recall of hashing, share of the memory's speed.

usage: serve_benchmark.py --bin-dir DIR [--data NAME|FOLDER] [--model FILE | --no-spec] [--epochs N]
           [--queries N] [--quick] [-o json]

Trains a model once, and asks a server for test points over loopback: single queries and batches,
exactly and among what hashing finds. Without --model the spec is the one of docs/models that has
the data's name, as long as it says; that of generated data is trained for two epochs. With
--no-spec it is what `dslide train` chooses by itself: a memory and label trees scored by a shard,
which know one way to predict.
"""

import argparse
import json
import pathlib
import sys

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH / "common"), str(BENCH / "peers")]

import data_sets  # noqa: E402
import programs  # noqa: E402
from measurement import say  # noqa: E402

# A generous bound on an hour's training on a busy machine.
TRAINING_SECONDS = 3600
MEASURING_SECONDS = 1200
MODELS = programs.ROOT / "docs/models"


def measure(options):
    """Raises data_sets.Absent."""
    with programs.Programs(options.bin_dir) as started:
        data = data_sets.find(options.data, started, started.directory)
        model = started.directory / "model"
        chosen = [] if options.no_spec else ["--model", options.model]
        if options.epochs is not None:
            chosen += ["--epochs", options.epochs]
        name = "without a spec" if options.no_spec else options.model.name
        say(f"training {name} on {data.name}")
        trained = started.run_json(
            "dslide", "train", "-q", "-o", "json", "--data", data.train, "--eval", data.test,
            *chosen, "--model-dir", model, "--timeout", "300s", within=TRAINING_SECONDS)
        say(f"P@1 {trained['p_at_1']:.4f}")
        measured = started.run_json(
            "dslide-bench", "serve", "--model-dir", model, "--data", data.test, "--queries",
            options.queries, "-o", "json", within=MEASURING_SECONDS)
    return {"data": data.name, "p_at_1": trained["p_at_1"]} | measured


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--data", metavar="NAME|FOLDER", help="default: generated; there are "
                        f"{', '.join(data_sets.NAMES)}, and folders with train.txt and test.txt")
    spec = parser.add_mutually_exclusive_group()
    spec.add_argument("--model", type=pathlib.Path)
    spec.add_argument("--no-spec", action="store_true")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    options.data = options.data or (data_sets.QUICK_NAMES[0] if options.quick else "generated")
    if options.model is None and not options.no_spec:
        named = MODELS / f"{pathlib.Path(options.data).name}.json"
        options.model = named if named.is_file() else MODELS / "wide-670k.json"
        if options.epochs is None and not named.is_file():
            options.epochs = 2
    if options.model is not None:
        options.model = options.model.resolve()
    if options.quick:
        options.epochs, options.queries = None if options.no_spec else 1, 64
    try:
        result = measure(options)
    except data_sets.Absent as why:
        say(f"skipped: data set {options.data}: {why}")
        sys.exit(programs.SKIPPED)
    if options.output == "json":
        print(json.dumps(result))


if __name__ == "__main__":
    main()
