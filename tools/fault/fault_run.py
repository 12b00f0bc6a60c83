"""What `./run fault` does: runs the fault tests that exist, and says which do not.

Text goes to stderr, and without -o json a table to stdout; with it the last line of stdout is one
JSON object. Its keys for what does not exist, and for what was not asked for, are null. Parts may
run beside each other, each in a process of its own. Exit code 0: every promise that was tested
held.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import abuse_attacks
import corruption_loop
import disk_full
import drain_loop
import failpoint_loop
import failpoints
import job_loop
import kill_loop
import overload
import planted_bugs
import poison
import processes
import protocol_abuse
import restore_loop
import simulation
import tracer_process
from fault_cluster import kept
from kill_schedule import CLIENT, COORDINATOR, KILL, PARTITION, PAUSE, SHARD, STOP, TRAINER
from small_disk import CannotMount

# A cluster is started anew after so many strikes: other ports, other sizes, short histories.
_STRIKES_OF_A_BATCH = 50
# Of a long work, nobody reads more than a line in so long.
_QUIET_SECONDS = 30.0
Strikes = Mapping[tuple[str, str], int]  # {(kind, deed): how many}
Figures = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Plan:
    """How much of everything. --set changes what is no mapping."""

    self_test_kills: int  # of shards without a log
    strikes: Strikes  # where nothing may be lost in any mode, on a faulty network
    clean_strikes: Strikes  # the same, on a clean one
    logged_strikes: Strikes  # where shards have a log
    job_coordinator_kills: int  # within one job
    job_shard_kills: int
    job_trainer_kills: int
    increment_loops: int
    increments: int  # acknowledged in each loop
    increment_kills: int  # of shards in each loop
    corruptions: Mapping[str, int]  # {way: rounds}
    failpoint_sample: int  # so many failpoints, by chance; 0: all
    failpoint_runs: int  # strikes at each
    drains: Strikes  # in each durability mode
    poison: int
    disk_rounds: int  # for each fault and kind of volume; 0: none
    overload_seconds: float
    abuse: Mapping[str, tuple[str, ...]]  # {position: attacks by name, none: all}
    abuse_seconds: float  # of each attack
    simulated: int  # seeds
    restores: int  # of clusters whose checkpoints were taken while tracers ran
    corruption_round: str = ""  # WAY:NUMBER, that one alone
    failpoint: str = ""  # beginning of the names of those that count
    planted: str = ""  # name of a bug, that one alone


PLANS = {
    "quick": Plan(
        self_test_kills=3,
        strikes={(TRAINER, KILL): 12, (CLIENT, KILL): 15, (COORDINATOR, KILL): 2,
                 (SHARD, PAUSE): 2, (SHARD, PARTITION): 2},
        clean_strikes={},
        logged_strikes={(SHARD, KILL): 30, (TRAINER, KILL): 14, (CLIENT, KILL): 10,
                        (SHARD, PAUSE): 1},
        job_coordinator_kills=10, job_shard_kills=2, job_trainer_kills=2,
        increment_loops=1, increments=20_000, increment_kills=3,
        corruptions={"start": 60, "load": 350, "catalog": 50, "model": 40},
        failpoint_sample=8, failpoint_runs=1,
        drains={(SHARD, STOP): 3, (COORDINATOR, STOP): 1}, poison=2000, disk_rounds=0,
        overload_seconds=15.0,
        abuse={protocol_abuse.STRANGER: ("rapid_reset", "continuation_flood"),
               protocol_abuse.PLAIN: ("giant_length", "compressed_bomb", "deep_nesting")},
        abuse_seconds=0.5, simulated=2000, restores=30),
    "full": Plan(
        self_test_kills=50,
        strikes={(TRAINER, KILL): 350, (CLIENT, KILL): 250, (COORDINATOR, KILL): 100,
                 (SHARD, PAUSE): 100, (SHARD, PARTITION): 100},
        clean_strikes={(TRAINER, KILL): 100, (CLIENT, KILL): 50, (COORDINATOR, KILL): 20},
        logged_strikes={(SHARD, KILL): 1000, (TRAINER, KILL): 150, (CLIENT, KILL): 150,
                        (COORDINATOR, KILL): 50, (SHARD, PAUSE): 50, (SHARD, PARTITION): 50},
        job_coordinator_kills=200, job_shard_kills=25, job_trainer_kills=25,
        increment_loops=4, increments=250_000, increment_kills=6,
        corruptions={"start": 2500, "load": 5000, "catalog": 1500, "model": 1000},
        failpoint_sample=0, failpoint_runs=20,
        drains={(SHARD, STOP): 200, (COORDINATOR, STOP): 20}, poison=100_000, disk_rounds=5,
        overload_seconds=120.0, abuse=dict.fromkeys(protocol_abuse.POSITIONS, ()),
        abuse_seconds=10.0, simulated=100_000, restores=300),
}

# What a tier is made of, in its order, and the keys of the result that each part fills.
PARTS = {
    "kills": ("shard_kills", "trainer_kills", "client_kills", "coordinator_kills", "shard_pauses",
              "shard_partitions", "acked", "acked_lost", "applied_twice", "bit_equal_shards",
              "digests_differ", "recovery_p99_seconds", "self_test"),
    "jobs": ("job_kills", "job_epochs", "job_samples", "job_samples_expected", "job_p_at_1",
             "job_undisturbed_p_at_1"),
    "increments": ("increments", "increment_sum_difference", "increment_shard_kills",
                   "increment_replies_lost"),
    "failpoints": ("failpoints", "failpoints_hit", "failpoint_violations"),
    "damage": ("corruptions", "silent", "corruption_ways"),
    "drains": ("drains", "drain_p99_seconds", "drain_acked_lost"),
    "poison": ("poison", "poison_mismatches"),
    "disks": ("disk_full_rounds", "disk_read_only_rounds", "disk_resume_max_seconds",
              "disk_acked_lost"),
    "overload": ("overload",),
    "abuse": ("abuse_attacks", "abuse_survived", "abuse_exceeded"),
    "simulation": ("sim_seeds", "sim_violations", "sim_faults"),
    "restores": ("restores", "cut_mismatches"),
    "planted": ("planted", "planted_caught"),
}

class Untested(Exception):
    """Why a part says nothing here."""


def batches(strikes: Strikes) -> Iterator[Strikes]:
    """`strikes` in portions of at most _STRIKES_OF_A_BATCH."""
    left = dict(strikes)
    count = max(1, -(-sum(left.values()) // _STRIKES_OF_A_BATCH))
    for number in range(count):
        # What is left is dealt out evenly over the batches that are left.
        part = {deed: -(-amount // (count - number)) for deed, amount in left.items()}
        left = {deed: amount - part[deed] for deed, amount in left.items()}
        yield {deed: amount for deed, amount in part.items() if amount}


class FaultRun:
    """Runs the parts of a plan and collects what they found."""

    def __init__(self, plan: Plan, seed: int, bin_dir: pathlib.Path,
                 parts: tuple[str, ...] = tuple(PARTS)) -> None:
        self.plan, self.seed, self.bin_dir, self._parts = plan, seed, bin_dir, parts
        self.failures: list[str] = []
        self.failed: list[str] = []  # parts that have some
        self.figures: Figures = {}
        self.untested: list[str] = []  # what this run says nothing about
        self._last_line = time.monotonic()

    def say(self, text: str) -> None:
        print(f"   {text}", file=sys.stderr, flush=True)

    def progress(self, line: str) -> None:
        """One of many lines about a long work, of which few are passed on."""
        if time.monotonic() - self._last_line >= _QUIET_SECONDS:
            self._last_line = time.monotonic()
            self.say(line)

    def fail(self, part: str, *what: object) -> None:
        self.failures += [f"{part}, seed {self.seed}: {one}" for one in what]

    def run(self) -> None:
        for part, keys in PARTS.items():
            self.figures |= dict.fromkeys(keys)
            before = len(self.failures)
            try:
                if part not in self._parts:
                    raise Untested("--only did not ask for it")
                found = _DEEDS[part](self)
                assert set(found) <= set(keys), f"{part} fills {sorted(found)}"
                self.figures |= found
            except Untested as why:
                self.untested.append(f"{', '.join(keys)}: not tested: {why}")
            except (AssertionError, RuntimeError, OSError) as error:
                self.fail(part, error)
            if len(self.failures) > before:
                self.failed.append(part)

    def result(self, tier: str, seconds: float) -> Figures:
        return {
            "seed": self.seed, "tier": tier, **self.figures, "failures": self.failures,
            "seconds": round(seconds, 1)}

    def loops(self, title: str, settings: Iterable[kill_loop.Settings],
              loop_class: type[kill_loop.KillLoop] = kill_loop.KillLoop) -> list[Figures]:
        """Kill loops one after the other; the results of those that came to their end."""
        results = []
        for one in settings:
            self.say(f"{title}: seed {one.seed}, {_words(one.strikes)}, {one.shards} shards, "
                     f"{one.trainers} trainers, {one.mode}, "
                     f"{'faulty' if one.rules else 'clean'} network")
            wrong: list[str] = []
            with kept("kill-loop", wrong) as directory:
                results.append(kill_loop.run(one, directory, self.progress, loop_class))
                wrong += kill_loop.broken(results[-1])
            self.failures += [f"{title}, seed {one.seed}: {what}" for what in wrong]
        return results


def _total(results: Iterable[Figures], key: str) -> int | None:
    """None where no result has the figure."""
    counts = [result[key] for result in results if result[key] is not None]
    return sum(counts) if counts else None


# --- the parts -----------------------------------------------------------------------------------


def _kill(run: FaultRun) -> Figures:
    # A harness that finds nothing is not trusted: here there is something to find.
    lossy = run.loops("self-test: a loss must be found", [
        kill_loop.Settings(run.seed + number, strikes=part, trainers=0, expect_loss=True)
        for number, part in enumerate(batches({(SHARD, KILL): run.plan.self_test_kills}))])
    loops = _struck(run, "nothing may be lost", "checkpoint", run.plan.strikes)
    if run.plan.clean_strikes:
        loops += _struck(run, "nothing may be lost", "checkpoint", run.plan.clean_strikes, None)
    loops += _struck(run, "shards with a log", "log", run.plan.logged_strikes)
    return {key: _total(loops, key) for key in PARTS["kills"][:-2]} | {
        "recovery_p99_seconds": max((loop["recovery_p99_seconds"] for loop in loops
                                     if loop["recovery_p99_seconds"] is not None), default=None),
        "self_test": {key: _total(lossy, key)
                      for key in ("shard_kills", "acked_lost", "reported_lost")}}


def _struck(run: FaultRun, title: str, mode: str, strikes: Strikes,
            rules: Any = kill_loop.FAULTY_NETWORK) -> list[Figures]:
    return run.loops(title, [kill_loop.Settings(
        run.seed + number, mode, shards=2 + number % 2, trainers=1 + number % 2, strikes=part,
        rules=rules) for number, part in enumerate(batches(strikes))])


def _hunt(run: FaultRun) -> Figures:
    """One job of 14 epochs, and who works for it is killed."""
    kills = {COORDINATOR: run.plan.job_coordinator_kills, SHARD: run.plan.job_shard_kills,
             TRAINER: run.plan.job_trainer_kills}
    run.say(f"a job: seed {run.seed}, "
            + ", ".join(f"{count} x kill {kind}" for kind, count in kills.items()))
    wrong: list[str] = []
    found: Figures = {}
    with kept("job-loop", wrong) as directory:
        found = job_loop.run(job_loop.Settings(run.seed, kills), directory, run.progress)
        wrong += kill_loop.broken(found)
    run.fail("jobs", *wrong)
    return found and {
        "job_kills": {kind: found[f"{kind}_kills"] for kind in kills},
        "job_epochs": len(found["epochs"]), "job_samples": found["samples"],
        "job_samples_expected": found["samples_expected"], "job_p_at_1": found["p_at_1"],
        "job_undisturbed_p_at_1": found["undisturbed_p_at_1"]}


def _increment(run: FaultRun) -> Figures:
    """Exact sums, at a high rate."""
    results = run.loops("increments", [kill_loop.increment_settings(
        run.seed + number, run.plan.increments, run.plan.increment_kills)
        for number in range(run.plan.increment_loops)])
    return {"increments": _total(results, "acked"),
            "increment_sum_difference": sum(abs(one["sum_difference"]) for one in results),
            "increment_shard_kills": _total(results, "shard_kills"),
            "increment_replies_lost": sum(one["network_faults"].get("lose_reply", 0)
                                          for one in results)}


def _strike_failpoints(run: FaultRun) -> Figures:
    points = [point for point in failpoints.points(run.bin_dir)
              if point.name.startswith(run.plan.failpoint)]
    if not points:
        raise Untested("these programs were built without them; build with -DDSLIDE_FAILPOINTS=ON")
    chosen = points
    if run.plan.failpoint_sample:
        chosen = failpoints.sample(points, run.plan.failpoint_sample, run.seed)
    run.say(f"failpoints: seed {run.seed}, {run.plan.failpoint_runs} strikes at each of "
            f"{len(chosen)} of {len(points)}")
    found: Figures = failpoint_loop.run(chosen, run.seed, run.plan.failpoint_runs, run.progress)
    run.fail("failpoints", *found["violations"],
             *(f"never hit: {point}" for point in found["not_hit"]))
    return {key: found[key] for key in PARTS["failpoints"]}


def _corrupt(run: FaultRun) -> Figures:
    way, _, number = run.plan.corruption_round.partition(":")
    rounds: Mapping[str, Any] = {way: [int(number)]} if number else run.plan.corruptions
    run.say(f"damaged files: seed {run.seed}, {rounds}")
    tally = corruption_loop.run(run.seed, rounds, say=run.progress)
    for line in tally.table():
        run.say(line)
    run.fail("damaged files", *(
        f"--set corruption_round={bad['way']}:{bad['round']}: {bad['outcome']}: {bad['kind']} of "
        f"{bad['file']} at {bad['offset']}: {bad['remark']}" for bad in tally.bad))
    return {"corruptions": tally.total(), "silent": tally.total("silent"),
            "corruption_ways": tally.ways()}


def _drain(run: FaultRun) -> Figures:
    """Servers that are told to stop, under load."""
    results = run.loops("drains", [
        kill_loop.Settings(run.seed, mode, strikes=run.plan.drains)
        for mode in ("checkpoint", "log")], drain_loop.DrainLoop)
    return {"drains": _total(results, "drains"),
            "drain_p99_seconds": max((one["drain_p99_seconds"] for one in results), default=None),
            "drain_acked_lost": _total(results, "acked_lost")}


def _poison(run: FaultRun) -> Figures:
    run.say(f"poison: seed {run.seed}, {run.plan.poison} updates")
    result: Figures = poison.run(run.seed, run.plan.poison, per_good=10)
    if result["poison_mismatches"]:
        run.fail("poison", result["mismatches"])
    return {key: result[key] for key in PARTS["poison"]}


def _fill_disks(run: FaultRun) -> Figures:
    if not run.plan.disk_rounds:
        raise Untested("only the full tier fills disks")
    found: Figures = dict.fromkeys(PARTS["disks"], 0)
    for fault in disk_full.FAULTS:
        rounds = f"disk_{fault.replace('-', '_')}_rounds"
        for volume in disk_full.VOLUMES:
            run.say(f"{fault} disk: seed {run.seed}, {volume}, {run.plan.disk_rounds} rounds")
            try:
                result = disk_full.run(run.seed, volume, run.plan.disk_rounds, fault=fault)
            except CannotMount as error:
                run.untested.append(f"{rounds}: not tested: {error}")
                found[rounds] = None
                break
            run.fail(f"{fault} disk ({volume})", *result["wrong"])
            found[rounds] += result.get("rounds", 0)
            found["disk_acked_lost"] += result.get("acked_lost", 0)
            found["disk_resume_max_seconds"] = max(found["disk_resume_max_seconds"],
                                                   result.get("resume_max_seconds", 0.0))
    return found


def _overload(run: FaultRun) -> Figures:
    run.say(f"overload: {run.plan.overload_seconds:g} s")
    result: Figures = overload.run(run.plan.overload_seconds, times=10)
    if not result["alive"] or result["health_failures"]:
        run.fail("overload", result["broken"])
    return {"overload": result}


def _abuse(run: FaultRun) -> Figures:
    found: Figures = {"abuse_attacks": 0, "abuse_survived": 0, "abuse_exceeded": {}}
    run.say(protocol_abuse.HEADING)
    for position, names in run.plan.abuse.items():
        attacks = [attack for attack in abuse_attacks.ATTACKS
                   if not names or attack.__name__ in names]
        for outcome in protocol_abuse.run(run.plan.abuse_seconds, attacks, position):
            run.say(outcome.row())
            run.fail("protocol abuse", *outcome.violations())
            found["abuse_attacks"] += 1
            found["abuse_survived"] += outcome.alive
            if outcome.exceeded():
                found["abuse_exceeded"][f"{outcome.attack} ({position})"] = outcome.exceeded()
    return found


def _simulate(run: FaultRun) -> Figures:
    """Seeds of the simulator that follow from the run's: other runs see other ones."""
    if not (run.bin_dir / simulation.PROGRAM).exists():
        raise Untested(f"these programs came without {simulation.PROGRAM}: build them here")
    first = run.seed * 1_000_000 + 1
    run.say(f"simulated clusters: seeds {first} to {first + run.plan.simulated - 1}")
    found: Figures = simulation.run(run.bin_dir, first, run.plan.simulated)
    run.fail("simulated clusters", *found["shown"])
    if found["trace_hash_mismatches"]:
        run.fail("simulated clusters", f"{found['trace_hash_mismatches']} seeds from {first} on "
                 "went two ways")
    return {"sim_seeds": found["seeds"], "sim_violations": found["violations"],
            "sim_faults": found["faults"]}


def _restore(run: FaultRun) -> Figures:
    """Clusters that are restored from checkpoints of running tracers."""
    if not (run.bin_dir / tracer_process.PROGRAM).exists():
        raise Untested(f"these programs came without {tracer_process.PROGRAM}: build them here")
    run.say(f"restores: seed {run.seed}, {run.plan.restores}")
    found: Figures = restore_loop.run(run.seed, run.plan.restores, say=run.progress)
    run.fail("restores", *found["violations"])
    return {"restores": found["restores"], "cut_mismatches": found["mismatches"]}


def _plant_bugs(run: FaultRun) -> Figures:
    run.say("planted bugs")
    outcomes = planted_bugs.run(run.say, run.plan.planted)
    missed = [found for found in outcomes if found.verdict != planted_bugs.CAUGHT]
    run.fail("planted bugs", *(
        f"{found.plant.name}: {found.verdict}: {found.detail}" for found in missed))
    return {"planted": len(outcomes), "planted_caught": len(outcomes) - len(missed)}


_DEEDS: dict[str, Callable[[FaultRun], Figures]] = {
    "kills": _kill, "jobs": _hunt, "increments": _increment, "failpoints": _strike_failpoints,
    "damage": _corrupt, "drains": _drain, "poison": _poison, "disks": _fill_disks,
    "overload": _overload, "abuse": _abuse, "simulation": _simulate, "restores": _restore,
    "planted": _plant_bugs}


# --- the command ---------------------------------------------------------------------------------


def _words(strikes: Strikes) -> str:
    return ", ".join(f"{count} x {deed} {kind}" for (kind, deed), count in strikes.items()
                     ) or "no strikes"


def parts_of(text: str) -> tuple[str, ...]:
    """The parts that --only names."""
    parts = tuple(part.strip() for part in text.split(","))
    for part in parts:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"unknown part '{part}'; there are: "
                                             f"{', '.join(PARTS)}")
    return parts


def changed(plan: Plan, changes: list[str]) -> Plan:
    """The plan with FIELD=VALUE in the place of its own."""
    for change in changes:
        name, _, value = change.partition("=")
        old = getattr(plan, name, None)
        if not isinstance(old, (int, float, str)):
            known = [field.name for field in dataclasses.fields(plan)
                     if not isinstance(getattr(plan, field.name), Mapping)]
            raise SystemExit(f"--set {name}: there is no such number; there are: "
                             f"{', '.join(known)}")
        found: dict[str, Any] = {name: type(old)(value)}
        plan = dataclasses.replace(plan, **found)
    return plan


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run fault", description=__doc__.splitlines()[0])
    parser.add_argument("tier", choices=list(PLANS))
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--only", type=parts_of, metavar="PART[,PART]", default=tuple(PARTS),
                        help=f"only these: {', '.join(PARTS)}")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE",
                        help="another number than the tier's; may be repeated")
    parser.add_argument("--check", action="store_true", help="only looks at the arguments")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    plan = changed(PLANS[options.tier], options.set)
    if options.check:
        return
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(f"fault tests ({options.tier}): seed {seed}", file=sys.stderr, flush=True)
    processes.use_bin_dir(options.bin_dir)
    run = FaultRun(plan, seed, options.bin_dir, options.only)
    started = time.monotonic()
    run.run()
    result = run.result(options.tier, time.monotonic() - started)
    for line in run.untested:
        run.say(line)
    for failure in run.failures:
        run.say(f"FAILED: {failure}")
    if run.failed:
        run.say(f"again: ./run fault {options.tier} --seed {seed} --only {','.join(run.failed)}")
    if options.output == "json":
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:22} {'-' if value is None else value}")
    sys.exit(1 if run.failures else 0)


if __name__ == "__main__":
    main()
