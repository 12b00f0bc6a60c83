"""Predictions of one thread on a generated model: time, recall of hashing, share of the memory's speed.

usage: serve_benchmark.py --bin-dir DIR [--model FILE] [--epochs N] [--queries N] [--labels N]
           [--quick] [-o json]

Trains the model of the spec on generated data, once, and asks a server for test points over
loopback: single queries and batches, exactly and among what hashing finds.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import programs  # noqa: E402
from measurement import say  # noqa: E402

# A generous bound on an hour's training on a busy machine.
TRAINING_SECONDS = 3600
MEASURING_SECONDS = 1200


def measure(options):
    shape = ["--labels", options.labels]
    if options.quick:
        shape += ["--features", 2000, "--points", 4000, "--eval-points", 200]
    with programs.Programs(options.bin_dir) as started:
        data = started.data(shape)
        model = started.directory / "model"
        say(f"training {options.model.name} for {options.epochs} epochs")
        trained = started.run_json(
            "dslide", "train", "-q", "-o", "json", "--data", data["train"], "--eval",
            data["eval"], "--model", options.model, "--epochs", options.epochs, "--shards", 1,
            "--model-dir", model, "--timeout", "300s", within=TRAINING_SECONDS)
        say(f"P@1 {trained['p_at_1']:.4f}")
        measured = started.run_json(
            "dslide-bench", "serve", "--model-dir", model, "--data", data["eval"], "--queries",
            options.queries, "-o", "json", within=MEASURING_SECONDS)
    return {"p_at_1": trained["p_at_1"], "epochs": options.epochs} | measured


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path,
                        default=programs.ROOT / "docs/models/wide-670k.json")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--labels", type=int, default=670_091)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    options.model = options.model.resolve()
    if options.quick:
        options.labels, options.epochs, options.queries = 5000, 1, 64
    result = measure(options)
    if options.output == "json":
        print(json.dumps(result))


if __name__ == "__main__":
    main()
