#!/usr/bin/env python3
"""Trains one data set with many settings of its hash tables, and records what each of them reached.

  sweep.py --train FILE --eval FILE --model SPEC.json --output RESULTS.jsonl [--center KEY=VALUE ...] GRID ...

A GRID is KEY=V1,V2,... : the center with KEY changed to each value in turn. Keys joined by '+' vary
together (every combination). `head.` and `input.` name the two tables, `both.` changes both, anything
else is a path from the top of the spec:

  sweep.py ... head.head.max_active=100,300,1000 head.head.hash.codes_per_table+head.head.hash.num_tables=9:11,12:24

Each run is one process with one thread, so that several may run beside other work: equal seeds give
equal bits on any number of threads, and time is CPU time of the process. A setting that RESULTS has
already is not run again: begin a new file for another commit.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile


def parse_value(text):
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def parse_grid(texts):
    """[{key: value}] of all grids; the empty change, the center itself, comes first."""
    changes = [{}]
    for text in texts:
        keys, _, values = text.partition("=")
        if not values:
            raise SystemExit(f"sweep: '{text}' is no grid; write KEY=V1,V2,...")
        keys = keys.split("+")
        columns = [[parse_value(v) for v in column.split(",")] for column in values.split(":")]
        if len(columns) != len(keys):
            raise SystemExit(f"sweep: '{text}' has {len(keys)} keys and {len(columns)} lists of values")
        changes += [dict(zip(keys, combination)) for combination in itertools.product(*columns)]
    return changes


def change_spec(spec, changes):
    roles = {"input": [spec["tables"][0]], "head": [spec["tables"][-1]], "both": [spec["tables"][0], spec["tables"][-1]]}
    for key, value in changes.items():
        path = key.split(".")
        places = [spec]
        if path[0] in roles:
            places = roles[path.pop(0)]
        for place in places:
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = value


def run(arguments, changes):
    with open(arguments.model, encoding="utf-8") as file:
        spec = json.load(file)
    change_spec(spec, changes)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec, file)
        command = [arguments.program, "train", "--data", arguments.train, "--eval", arguments.eval, "--model", path,
                   "--shards", "1", "--threads", str(arguments.threads), "--timeout", "1200s", "-q", "-o", "json"]
        before = os.times()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        after = os.times()
    if done.returncode != 0:
        raise SystemExit(f"sweep: training failed with {changes} (its message is above)")
    result = json.loads(done.stdout.splitlines()[-1])
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"changes": changes, "process_cpu_seconds": round(cpu, 2), "result": result}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bin/dslide")
    parser.add_argument("--train", required=True)
    parser.add_argument("--eval", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--center", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("grids", nargs="*", metavar="GRID")
    arguments = parser.parse_args()
    center = {key: parse_value(value) for key, _, value in (text.partition("=") for text in arguments.center)}
    done = []
    if os.path.exists(arguments.output):
        with open(arguments.output, encoding="utf-8") as file:
            done = [json.loads(line)["changes"] for line in file]
    for change in parse_grid(arguments.grids):
        changes = {**center, **change}
        if changes in done:
            continue
        done.append(changes)
        record = run(arguments, changes)
        with open(arguments.output, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        result = record["result"]
        print(f"P@1 {result['p_at_1']:.4f}  recall@1 {result['hash_recall_top1']:.3f}  "
              f"distinct {result['distinct_rows_per_batch']:7.0f}  CPU {record['process_cpu_seconds']:6.1f} s  {changes}",
              flush=True)


if __name__ == "__main__":
    sys.exit(main())
