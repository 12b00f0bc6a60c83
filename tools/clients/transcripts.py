#!/usr/bin/env python3
"""Compares clients with the transcripts of tests/clients/transcripts.json.

Each says, update for update, what a client that adds ones to rows, or does operations of steps,
asks of a shard, what the shard answers or how it fails, and what the client must say became of the
update. The interpreter is one that has the Python package of the client: ./run clients starts it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import pathlib
import sys
from typing import Any

from counted_increments import Increments
from scripted_cluster import ScriptedCluster, any_of, value_of_operation

TRANSCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "clients" / "transcripts.json"
_TIMEOUT_SECONDS = 300  # of a client whose transcript needs none


def _wrong_outcome(line: str, number: int, update: dict[str, Any], is_operation: bool) -> list[str]:
    """What is wrong with what the client says of an update, or of an operation of a step."""
    if not line:
        return ["the program has ended"]
    said = json.loads(line)
    allowed, reasons = any_of(update["outcome"]), any_of(update.get("reason", said["reason"]))
    expected = f"{' or '.join(allowed)} {' or '.join(any_of(update.get('reason', '')))}".strip()
    if (said["update"] != number or said["outcome"] not in allowed
            or said["reason"] not in reasons):
        return [f"it says {line.strip()}, expected {expected}"]
    if (is_operation and said["outcome"] == "applied"
            and said["value"] != value_of_operation(number)):
        return [f"it says {line.strip()}, expected the value {value_of_operation(number)}: it took "
                "another operation's answer"]
    return []


def differences(program: dict[str, Any], transcript: dict[str, Any]) -> list[str]:
    """Where a program departs from a transcript, up to the first such update."""
    cluster = ScriptedCluster()
    client = Increments(program["increments"], program["environment"], cluster.address,
                        timeout_seconds=transcript.get("timeout_seconds", _TIMEOUT_SECONDS))
    try:
        wrong: list[str] = []
        number = 0
        for update in transcript["updates"]:
            operations = update.get("operations")
            cluster.begin(update["shard"])
            first, parts = number, operations or [update]
            lines = client.ask(f"step {len(parts)}" if operations else "", len(parts))
            outcomes = []
            for line, part in zip(lines, parts, strict=True):
                outcomes += _wrong_outcome(line, number, part, operations is not None)
                number += 1
            wrong = [f"update {first}: {text}" for text in outcomes + cluster.end()]
            if wrong:
                break
        ended = client.end()
        return wrong + ([ended] if ended else [])
    finally:
        cluster.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path,
                        help='JSON: [{"language", "increments": [command], "environment", '
                             '"in_flight": operations of a step stream, 1}, ...]')
    parser.add_argument("--only", help="the transcript of this name alone")
    options = parser.parse_args()
    transcripts = [one for one in json.loads(TRANSCRIPTS.read_text(encoding="utf-8"))
                   if options.only in (None, one["name"])]
    programs = json.loads(options.programs.read_text(encoding="utf-8"))
    cases = [(program, transcript) for program in programs for transcript in transcripts
             if transcript.get("in_flight", 1) <= program.get("in_flight", 1)]
    for program in programs:
        left_out = len(transcripts) - sum(case[0] is program for case in cases)
        if left_out:
            print(f"{program['language']}: {left_out} transcripts left out, of more operations in "
                  f"flight than {program.get('in_flight', 1)}", file=sys.stderr)
    # Most of the time is spent in waiting.
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda case: differences(*case), cases))
    # One line of JSON for each case.
    for (program, transcript), wrong in zip(cases, results, strict=True):
        print(json.dumps({"language": program["language"], "transcript": transcript["name"],
                          "wrong": wrong}))
    sys.exit(any(results))


if __name__ == "__main__":
    main()
