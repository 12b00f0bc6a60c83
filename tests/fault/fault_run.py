"""What `./run fault` does: runs the fault tests that exist, and says which do not.

    python3 fault_run.py quick|full --bin-dir DIR [--only PART[,PART]] [--seed N] [-o json]

Text goes to stderr, and without -o json a table to stdout; with it the last line of stdout is one
JSON object. Its keys for what does not exist, and for what was not asked for, are null. Parts may
run beside each other, each in a process of its own. Exit code 0: every promise that was tested
held.
"""

import argparse
import dataclasses
import json
import pathlib
import random
import sys
import time

import fault_paths  # noqa: F401
import corruption_loop
import disk_full
import drain_loop
import failpoint_loop
import failpoints
import kill_loop
import overload
import planted_bugs
import poison
import processes
import protocol_abuse
import restore_loop
import simulation
from fault_cluster import supports
from kill_schedule import CLIENT, COORDINATOR, KILL, PARTITION, PAUSE, SHARD, STOP, TRAINER
from now_and_then import NowAndThen
from small_disk import CannotMount

# A cluster is started anew after so many strikes: other ports, other sizes, short histories.
_STRIKES_OF_A_BATCH = 50


@dataclasses.dataclass(frozen=True)
class Plan:
    """How much of everything."""

    self_test_kills: int  # of shards without a log
    strikes: dict  # where nothing may be lost in any mode, on a faulty network
    clean_strikes: dict  # the same, on a clean one
    logged_strikes: dict  # where shards have a log
    increments: tuple  # (loops, increments acknowledged in each, kills of shards in each)
    corruptions: dict  # {way: rounds}
    failpoint_sample: int | None  # so many failpoints, by chance; None: all
    failpoint_runs: int  # strikes at each
    drains: dict  # {(kind, deed): how many}, in each durability mode
    poison: int
    disk_rounds: int  # for each fault and kind of volume; 0: none
    overload_seconds: float
    abuse: dict  # {position: attacks by name, None: all}; see protocol_abuse.py
    abuse_seconds: float  # of each attack
    simulated: int  # seeds
    restores: int  # of clusters whose checkpoints were taken while tracers ran


PLANS = {
    "quick": Plan(
        3,
        {(TRAINER, KILL): 12, (CLIENT, KILL): 15, (COORDINATOR, KILL): 2, (SHARD, PAUSE): 2,
         (SHARD, PARTITION): 2},
        {},
        {(SHARD, KILL): 30, (TRAINER, KILL): 14, (CLIENT, KILL): 10, (SHARD, PAUSE): 1},
        (1, 20_000, 3),
        {"start": 60, "load": 350, "catalog": 50, "model": 40}, 8, 1,
        {(SHARD, STOP): 3, (COORDINATOR, STOP): 1}, 2000, 0, 15.0,
        {protocol_abuse.STRANGER: ("rapid_reset", "continuation_flood"),
         protocol_abuse.PLAIN: ("giant_length", "compressed_bomb", "deep_nesting")}, 0.5, 2000,
        30),
    "full": Plan(
        50,
        {(TRAINER, KILL): 350, (CLIENT, KILL): 250, (COORDINATOR, KILL): 100, (SHARD, PAUSE): 100,
         (SHARD, PARTITION): 100},
        {(TRAINER, KILL): 100, (CLIENT, KILL): 50, (COORDINATOR, KILL): 20},
        {(SHARD, KILL): 1000, (TRAINER, KILL): 150, (CLIENT, KILL): 150, (COORDINATOR, KILL): 50,
         (SHARD, PAUSE): 50, (SHARD, PARTITION): 50},
        (4, 250_000, 6),
        {"start": 2500, "load": 5000, "catalog": 1500, "model": 1000}, None, 20,
        {(SHARD, STOP): 200, (COORDINATOR, STOP): 20}, 100_000, 5, 120.0,
        {position: None for position in protocol_abuse.POSITIONS}, 10.0,
        100_000, 300),
}

# What a tier is made of, in its order, and the keys of the result that each part fills.
PARTS = {
    "kills": ("shard_kills", "trainer_kills", "client_kills", "coordinator_kills", "shard_pauses",
              "shard_partitions", "acked", "acked_lost", "applied_twice", "bit_equal_shards",
              "digests_differ", "recovery_p99_seconds", "self_test"),
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
NOT_ASKED_FOR = "--only did not ask for it"
WITHOUT_FAILPOINTS = "these programs were built without them; build with -DDSLIDE_FAILPOINTS=ON"
WITHOUT_SIMULATOR = "these programs came without dslide_simulate: build them here"
WITHOUT_TRACER = "these programs came without dslide_tracer: build them here"
# Keys of the parts beside the kill loops and the damaged files; null when one was not run.
OTHER_KEYS = ("increments", "increment_sum_difference", "increment_shard_kills",
              "increment_replies_lost", "drains", "drain_p99_seconds", "drain_acked_lost", "poison",
              "poison_mismatches", "disk_full_rounds", "disk_read_only_rounds",
              "disk_resume_max_seconds", "disk_acked_lost", "overload", "abuse_attacks",
              "abuse_survived", "abuse_exceeded", "restores", "cut_mismatches")
WITHOUT_LOG = ("this build's shards have no command log (--durability log): a killed shard loses "
               "what it has acknowledged, which no mode promises to keep; acked_lost and "
               "applied_twice are those of killed trainers, clients and coordinators, of paused "
               "shards and of a faulty network")


def batches(strikes):
    """`strikes` in portions of at most _STRIKES_OF_A_BATCH."""
    left = dict(strikes)
    total = sum(left.values())
    count = max(1, -(-total // _STRIKES_OF_A_BATCH))
    for number in range(count):
        # What is left is dealt out evenly over the batches that are left.
        part = {deed: -(-amount // (count - number)) for deed, amount in left.items()}
        left = {deed: amount - part[deed] for deed, amount in left.items()}
        yield {deed: amount for deed, amount in part.items() if amount}


class FaultRun:
    """Runs the parts of a plan and collects what they found."""

    def __init__(self, plan, seed, bin_dir, parts=tuple(PARTS)):
        self._plan, self._seed = plan, seed
        self._parts = parts
        self._points = failpoints.points(bin_dir)
        self.logged = supports(bin_dir, "log")
        self.failures = []
        self.failed = []  # parts that have some
        self.loops = []  # results of kill loops in which nothing may be lost
        self.self_test = None
        self.corruption = None
        self.failpoints = None
        self.planted = None
        self.figures = {}  # of the other parts, by the keys of the result
        self.skipped = {}  # {keys: why they are null}
        self.simulated = None
        self._bin_dir = bin_dir
        self._progress = NowAndThen(self.say)

    def say(self, text):
        print(f"   {text}", file=sys.stderr, flush=True)

    def run(self):
        deeds = {"kills": self._kill, "increments": self._increment,
                 "failpoints": self._strike_failpoints, "damage": self._corrupt,
                 "drains": self._drain, "poison": self._poison, "disks": self._fill_disks,
                 "overload": self._overload, "abuse": self._abuse, "simulation": self._simulate,
                 "restores": self._restore, "planted": self._plant_bugs}
        for part, deed in deeds.items():
            if part not in self._parts:
                self.skipped[PARTS[part]] = NOT_ASKED_FOR
                continue
            before = len(self.failures)
            try:
                deed()
            except (AssertionError, RuntimeError, OSError) as error:
                self.failures.append(f"{part}, seed {self._seed}: {error}")
            if len(self.failures) > before:
                self.failed.append(part)

    def _kill(self):
        self._find_planned_loss()
        self._strike("nothing may be lost", "checkpoint", self._plan.strikes)
        if self._plan.clean_strikes:
            self._strike("nothing may be lost", "checkpoint", self._plan.clean_strikes, rules=None)
        if self.logged:
            self._strike("shards with a log", "log", self._plan.logged_strikes)

    def _increment(self):
        """Exact sums, at a high rate."""
        if not self.logged:
            self.skipped[PARTS["increments"]] = "these shards have no command log"
            return
        found = dict.fromkeys(PARTS["increments"], 0)
        loops, count, kills = self._plan.increments
        for number in range(loops):
            result = self._loop("increments", kill_loop.increment_settings(
                self._seed + number, count, kills))
            if result is None:
                return
            found["increments"] += result["acked"]
            found["increment_sum_difference"] += abs(result["sum_difference"])
            found["increment_shard_kills"] += result["shard_kills"]
            found["increment_replies_lost"] += result["network_faults"].get("lose_reply", 0)
        self.figures |= found

    def _drain(self):
        """Servers that are told to stop, under load."""
        found = {"drains": 0, "drain_p99_seconds": 0.0, "drain_acked_lost": 0}
        for mode in ("checkpoint", "log") if self.logged else ("checkpoint",):
            self.say(f"drains: seed {self._seed}, {_words(self._plan.drains)}, {mode}")
            result = kill_loop.run_kept(kill_loop.Settings(
                self._seed, mode, strikes=self._plan.drains), report=self._progress,
                loop_class=drain_loop.DrainLoop)
            found["drains"] += result["drains"]
            found["drain_acked_lost"] += result["acked_lost"]
            found["drain_p99_seconds"] = max(found["drain_p99_seconds"],
                                             result["shard_drain_p99_seconds"])
            if result["violations"]:
                self.failures.append(f"drains ({mode}), seed {self._seed}: {result['violations']}")
        self.figures |= found

    def _poison(self):
        self.say(f"poison: seed {self._seed}, {self._plan.poison} updates")
        result = poison.run(self._seed, self._plan.poison, per_good=10)
        self.figures |= {key: result[key] for key in ("poison", "poison_mismatches")}
        if result["poison_mismatches"]:
            self.failures.append(f"poison, seed {self._seed}: {result['mismatches']}")

    def _fill_disks(self):
        keys = PARTS["disks"]
        if not self._plan.disk_rounds:
            self.skipped[keys] = "only the full tier fills disks"
            return
        found = dict.fromkeys(keys, 0)
        for fault in disk_full.FAULTS:
            rounds = f"disk_{fault.replace('-', '_')}_rounds"
            for volume in disk_full.VOLUMES if self.logged else ("checkpoint",):
                self.say(f"{fault} disk: seed {self._seed}, {volume}, {self._plan.disk_rounds} "
                         "rounds")
                try:
                    result = disk_full.run(self._seed, volume, self._plan.disk_rounds, fault=fault)
                except CannotMount as error:
                    self.skipped[rounds,] = str(error)
                    found[rounds] = None
                    break
                found[rounds] += result["rounds"]
                found["disk_acked_lost"] += result["acked_lost"]
                found["disk_resume_max_seconds"] = max(found["disk_resume_max_seconds"],
                                                       result["resume_max_seconds"])
                if result["violations"]:
                    self.failures.append(
                        f"{fault} disk ({volume}), seed {self._seed}: {result['violations']}")
        self.figures |= found

    def _overload(self):
        self.say(f"overload: {self._plan.overload_seconds:g} s")
        result = overload.run(self._plan.overload_seconds, times=10)
        self.figures["overload"] = result
        if not result["alive"] or result["health_failures"]:
            self.failures.append(f"overload: {result['broken']}")

    def _abuse(self):
        figures = {"abuse_attacks": 0, "abuse_survived": 0, "abuse_exceeded": {}}
        for position, names in self._plan.abuse.items():
            attacks = [attack for attack in protocol_abuse.ATTACKS
                       if names is None or attack.__name__ in names]
            self.say(f"protocol abuse: {len(attacks)} attacks, {position}")
            result = protocol_abuse.run(self._plan.abuse_seconds, attacks, [position])
            figures["abuse_attacks"] += result["attacks"]
            figures["abuse_survived"] += result["survived"]
            figures["abuse_exceeded"] |= result["exceeded"]
            self.failures.extend(f"protocol abuse: {line}" for line in result["violations"])
        self.figures |= figures

    def _restore(self):
        """Clusters that are taken back to checkpoints of running tracers."""
        if not restore_loop.exists(self._bin_dir):
            self.skipped[PARTS["restores"]] = WITHOUT_TRACER
            return
        self.say(f"restores: seed {self._seed}, {self._plan.restores}")
        result = restore_loop.run(self._seed, self._plan.restores, say=self._progress)
        self.figures |= {"restores": result["restores"], "cut_mismatches": result["mismatches"]}
        self.failures += [f"restores, {what}" for what in result["violations"]]

    def _loop(self, title, settings):
        """One kill loop, None when it could not be run to its end."""
        self.say(f"{title}: seed {settings.seed}, {_words(settings.strikes)}, "
                 f"{settings.shards} shards, {settings.trainers} trainers, {settings.mode}, "
                 f"{'faulty' if settings.rules else 'clean'} network")
        try:
            result = kill_loop.run_kept(settings, report=self._progress)
        except (AssertionError, RuntimeError, OSError) as error:
            self.failures.append(f"{title}, seed {settings.seed}: {error}")
            return None
        if result["violations"]:
            self.failures.append(f"{title}, seed {settings.seed}: {result['violations']}")
        return result

    def _find_planned_loss(self):
        """A harness that finds nothing is not trusted: here there is something to find."""
        self.self_test = {"shard_kills": 0, "acked_lost": 0, "reported_lost": 0}
        for number, part in enumerate(batches({(SHARD, KILL): self._plan.self_test_kills})):
            result = self._loop("self-test: a loss must be found", kill_loop.Settings(
                self._seed + number, strikes=part, trainers=0, expect_loss=True))
            for key in self.self_test if result else ():
                self.self_test[key] += result[key]

    def _strike(self, title, mode, strikes, rules=kill_loop.FAULTY_NETWORK):
        for number, part in enumerate(batches(strikes)):
            result = self._loop(title, kill_loop.Settings(
                self._seed + number, mode, shards=2 + number % 2, trainers=1 + number % 2,
                strikes=part, rules=rules))
            if result:
                self.loops.append(result)

    def _strike_failpoints(self):
        points = self._points
        if not points:
            self.skipped[PARTS["failpoints"]] = WITHOUT_FAILPOINTS
            return
        if self._plan.failpoint_sample is not None:
            points = failpoint_loop.sample(points, self._plan.failpoint_sample, self._seed)
        self.say(f"failpoints: seed {self._seed}, {self._plan.failpoint_runs} strikes at each of "
                 f"{len(points)} of {len(self._points)}")
        self.failpoints = failpoint_loop.run(points, self._seed, self._plan.failpoint_runs,
                                            self._progress)
        for violation in self.failpoints["violations"]:
            self.failures.append(f"failpoints, seed {self._seed}: {violation}")
        for point in self.failpoints["not_hit"]:
            self.failures.append(f"failpoints, seed {self._seed}: never hit: {point}")

    def _plant_bugs(self):
        self.say("planted bugs")
        try:
            outcomes = planted_bugs.run(planted_bugs.ROOT / "build-planted", say=self.say)
        except (RuntimeError, OSError) as error:
            self.failures.append(f"planted bugs: {error}")
            return
        self.planted = planted_bugs.summary(outcomes)
        for found in outcomes:
            if found.verdict != planted_bugs.CAUGHT:
                self.failures.append(f"planted bug {found.plant.name}: {found.verdict}: "
                                     f"{found.detail}")

    def _corrupt(self):
        self.say(f"damaged files: seed {self._seed}, {_words(self._plan.corruptions)}")
        try:
            tally = corruption_loop.run(self._seed, self._plan.corruptions,
                                        say=self._progress)
        except (AssertionError, RuntimeError, OSError) as error:
            self.failures.append(f"damaged files, seed {self._seed}: {error}")
            return
        self.corruption = tally.result(self._seed)
        for record in self.corruption["bad"]:
            self.failures.append(
                f"damaged files, seed {self._seed}, --only {record['way']}:{record['round']}: "
                f"{record['outcome']}: {record['kind']} of {record['file']} at {record['offset']}")

    def _simulate(self):
        """Seeds of the simulator that follow from the run's: other runs see other ones."""
        if not simulation.exists(self._bin_dir):
            self.skipped[PARTS["simulation"]] = WITHOUT_SIMULATOR
            return
        first = self._seed * 1_000_000 + 1
        self.say(f"simulated clusters: seeds {first} to {first + self._plan.simulated - 1}")
        self.simulated = simulation.run(self._bin_dir, first, self._plan.simulated)
        self.failures += [f"simulated clusters: {line}" for line in self.simulated["shown"]]
        if self.simulated["trace_hash_mismatches"]:
            self.failures.append(f"simulated clusters: {self.simulated['trace_hash_mismatches']} "
                                 f"seeds from {first} on went two ways")

    # --- the result ------------------------------------------------------------------------------

    def _sum(self, key):
        found = [loop[key] for loop in self.loops if loop[key] is not None]
        return sum(found) if found else None

    def result(self, tier, seconds):
        corruption, simulated = self.corruption or {}, self.simulated or {}
        recoveries = [loop["recovery_p99_seconds"] for loop in self.loops
                      if loop["recovery_p99_seconds"] is not None]
        result = {
            "seed": self._seed, "tier": tier, "durability": "log" if self.logged else "checkpoint",
            "shard_kills": self._sum("shard_kills") if self.logged else None,
            "trainer_kills": self._sum("trainer_kills"),
            "client_kills": self._sum("client_kills"),
            "coordinator_kills": self._sum("coordinator_kills"),
            "shard_pauses": self._sum("shard_pauses"),
            "shard_partitions": self._sum("shard_partitions"),
            "acked": self._sum("acked"), "acked_lost": self._sum("acked_lost"),
            "applied_twice": self._sum("applied_twice"),
            "bit_equal_shards": self._sum("bit_equal_shards"),
            "digests_differ": self._sum("digests_differ"),
            "recovery_p99_seconds": max(recoveries, default=None),
            "self_test": self.self_test,
            "corruptions": corruption.get("corruptions"), "silent": corruption.get("silent"),
            "corruption_ways": corruption.get("ways"),
            "sim_seeds": simulated.get("seeds"), "sim_violations": simulated.get("violations"),
            "sim_faults": simulated.get("faults"),
        }
        struck, planted = self.failpoints or {}, self.planted or {}
        result |= {key: struck.get(key) for key in
                   ("failpoints", "failpoints_hit", "failpoint_violations")}
        result |= {key: planted.get(key) for key in ("planted", "planted_caught")}
        result |= {key: self.figures.get(key) for key in OTHER_KEYS}
        return result | {"failures": self.failures, "seconds": round(seconds, 1)}

    def untested(self):
        """Lines that say what this run says nothing about."""
        lines = []
        if "kills" in self._parts and not self.logged:
            lines.append("shard_kills, bit_equal_shards, digests_differ: not tested: "
                         f"{WITHOUT_LOG}")
        return lines + [f"{', '.join(keys)}: not tested: {why}"
                        for keys, why in self.skipped.items()]


def _words(counts):
    """{(kind, deed) or name: how many} for people."""
    named = {" ".join(reversed(key)) if isinstance(key, tuple) else key: count
             for key, count in counts.items()}
    return ", ".join(f"{count} x {name}" for name, count in named.items()) or "no strikes"


def _parts(text):
    """The parts that --only names."""
    parts = tuple(part.strip() for part in text.split(","))
    for part in parts:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"unknown part '{part}'; there are: "
                                             f"{', '.join(PARTS)}")
    return parts


def main():
    parser = argparse.ArgumentParser(prog="./run fault", description=__doc__.splitlines()[0])
    parser.add_argument("tier", choices=list(PLANS))
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--only", type=_parts, metavar="PART[,PART]", default=tuple(PARTS),
                        help=f"only these: {', '.join(PARTS)}")
    parser.add_argument("--check", action="store_true", help="only looks at the arguments")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    if options.check:
        return
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(f"fault tests ({options.tier}): seed {seed}", file=sys.stderr, flush=True)
    processes.use_bin_dir(options.bin_dir)
    run = FaultRun(PLANS[options.tier], seed, options.bin_dir, options.only)
    started = time.monotonic()
    run.run()
    result = run.result(options.tier, time.monotonic() - started)
    for line in run.untested():
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
