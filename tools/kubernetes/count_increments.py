"""Counts on the shards of a cluster until SIGTERM, and judges what became of every increment.

usage: count_increments.py --coordinator HOST:PORT --shard HOST:PORT... --folder DIR

The client of tools/fault, in a model of its own, which it registers. The folder gets the history;
stdout ends with the verdict as one JSON object, in which `violations` should be empty.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import signal
import threading

import increment_client
from grpc_client import Connection
from increment_cells import LaneBook, final_sums, model_for
from oracle import Recorder, judge, read_history
from shard_client import register_model

LANES = 200
RATE = 20.0
# Of a call, in seconds, and of one after others without an answer.
TIMEOUT, LONGEST_TIMEOUT = 2.0, 4.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--coordinator", required=True)
    parser.add_argument("--shard", action="append", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    options = parser.parse_args()
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    model = model_for(LANES, len(options.shard))
    with Connection(options.coordinator) as connection:
        register_model(connection, model)
    history = options.folder / "history-0.jsonl"
    increment_client.run(increment_client.Settings(
        Recorder(history), LaneBook(options.folder / "lanes", LANES), model.tables[0],
        len(options.shard), RATE, "0", TIMEOUT, LONGEST_TIMEOUT), options.shard, stopping)
    events = read_history([history])
    sums, miscounted = final_sums(options.shard, model, events)
    verdict = judge(events, sums)
    violations = verdict.violations(loss_allowed=False) | {
        "unreported": len(verdict.unreported), "false_reports": len(verdict.false_reports),
        "miscounted": len(miscounted)}
    print(json.dumps(verdict.summary() | {
        "violations": {name: count for name, count in violations.items() if count}}))


if __name__ == "__main__":
    main()
