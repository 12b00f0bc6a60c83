"""Kills the processes of a working cluster, again and again, and judges what became of every update.

    python3 kill_loop.py --bin-dir build/bin [--seed N] [--shard-kills N] [--trainer-kills N]
                         [--client-kills N] [--coordinator-kills N] [--durability checkpoint]
                         [--network none|faulty] [--expect-loss] [--keep DIRECTORY]

A coordinator, shards, trainers (`dslide train`) and increment clients run as processes. The seed
gives a schedule of SIGKILLs; every victim is started again on its address and data directory. With
--network faulty, everything reaches the shards through proxies that delay, cut and lose replies.
At the end the sums are read from the shards, and the oracle compares them with what the clients
have recorded. The last line of stdout is one JSON object.

Exit code 0: no promise was broken. In the mode `checkpoint` a killed shard loses what it has
acknowledged since its last checkpoint, which is no violation there; --expect-loss makes it one
*not* to find any: a test of this program itself.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time

import fault_paths  # noqa: F401
import grpc_client
import increment_cells
import increment_client
import processes
import shard_client
from fault_cluster import DURABILITY_FLAGS, LOSSLESS_MODES, FaultCluster, Member, supports
from fault_plan import DOWN, UP, Rule
from increment_cells import lane_of, model_for
from kill_schedule import CLIENT, COORDINATOR, SHARD, TRAINER, schedule
from oracle import judge, read_history, recovery_seconds, write_sums

SETTLE_SECONDS = 1.0
PROGRESS_SECONDS = 30
# Exit codes of `dslide train`: its shard did not come back in time, or came back without its rows.
_LOST_SHARD_EXITS = (4, 5)
_INTERRUPTED = 130

# Bytes of the increment clients are few: a connection lives for some dozens of their updates.
FAULTY_NETWORK = (
    Rule("delay", seconds=0.0005, jitter=0.002),
    Rule("lose_reply", DOWN, every=150, frame="HEADERS"),
    Rule("cut", UP, every=400_000),
    Rule("cut", DOWN, every=400_000),
    Rule("stall", DOWN, every=600_000, seconds=0.5),
)


@dataclasses.dataclass
class Settings:
    seed: int
    mode: str = "checkpoint"
    shards: int = 2
    clients: int = 2
    trainers: int = 1
    kills: dict = dataclasses.field(default_factory=dict)
    rules: tuple = None  # of the proxies before the shards; None: no proxies
    rate: float = 150.0
    expect_loss: bool = False

    def members(self):
        return {SHARD: self.shards, TRAINER: self.trainers, CLIENT: self.clients, COORDINATOR: 1}

    def lanes(self):
        """Enough for every client id: a kill makes new ones, and so does a full lane."""
        kills = sum(self.kills.values())
        seconds = 20 + 3 * kills
        full = seconds * self.rate / increment_cells.SEQUENCES_PER_LANE
        return int(self.clients * (full + 4) + 2 * self.clients * kills + 20)


def final_sums(addresses, model, history):
    """({(client, shard, sequence): both cells}, [lanes whose count differs from their cells])."""
    table = model.tables[0]
    sums, miscounted = {}, []
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(grpc_client.Connection(address))
                       for address in addresses]
        for event in history:
            if event["event"] != "client":
                continue
            shard = event["shard"]
            lane = lane_of(table, event["lane"], shard, len(addresses))
            weights, _ = shard_client.gather_bytes(connections[shard], model.name, table.name,
                                                   sorted(lane.rows))
            found, count = lane.sums(weights)
            for sequence, cells in found.items():
                if any(cells):
                    sums[event["client"], shard, sequence] = cells
            added = sum(cells[0] for cells in found.values())
            if count != added:
                miscounted.append((event["client"], shard, count, added))
    return sums, miscounted


class KillLoop(contextlib.ExitStack):
    """One run: start(), strike() through the schedule, verdict()."""

    def __init__(self, settings, directory):
        super().__init__()
        self.settings = settings
        self.directory = directory
        self._lanes = settings.lanes()
        self.model = model_for(self._lanes, settings.shards)
        self.cluster = self.enter_context(FaultCluster(
            directory, settings.shards, settings.mode, settings.seed, settings.rules))
        self._lane_file = directory / "lanes"
        self._kill_times = []  # (ns, shard)
        self.counts = {kind: 0 for kind in settings.members()}
        self.problems = []
        self.clients = [self._client(number) for number in range(settings.clients)]
        self.trainers = [self._trainer(number) for number in range(settings.trainers)]
        self._victims = {SHARD: self.cluster.shards, TRAINER: self.trainers, CLIENT: self.clients,
                         COORDINATOR: [self.cluster.coordinator]}

    def _member(self, name, program, arguments, wrapper=()):
        member = Member(name, program, arguments, self.directory, {"OMP_WAIT_POLICY": "passive"},
                        wrapper)
        self.callback(member.kill)
        return member

    def _history(self, number, life):
        return self.directory / f"history-{number}-{life}.jsonl"

    def _client(self, number):
        settings = self.settings

        def arguments(life):
            shards = [word for shard in range(settings.shards)
                      for word in ("--shard", self.cluster.client_address(shard))]
            return [*shards, "--history", self._history(number, life), "--lanes", self._lane_file,
                    "--lane-count", self._lanes, "--rate", settings.rate,
                    "--seed", f"{settings.seed}/{number}/{life}"]

        return self._member(f"client-{number}", increment_client.__file__, arguments,
                            [sys.executable])

    def _trainer(self, number):
        return self._member(f"trainer-{number}", "dslide", [
            "train", "-q", "--cluster", self.cluster.coordinator_address, "--job", "kill-loop",
            "--data", self.directory / "data.txt", "--epochs", 1000000, "--validation-fraction", 0,
            "--timeout", "10s", "--threads", 1])

    def start(self):
        if self.trainers:
            made = Member("data", "dslide", ["data", "gen", "--output", self.directory / "data.txt",
                                             "--points", 5000, "--features", 500, "--labels", 600],
                          self.directory)
            made.start()
            made.process.finish(within=30)
            made.kill()
        self.cluster.start()
        self.cluster.register_model(self.model)
        for member in (*self.clients, *self.trainers):
            member.start()
        self._wait_for_progress("the first")

    # --- kills -----------------------------------------------------------------------------------

    def strike(self, kill):
        """Waits, kills, waits, starts again; meanwhile the others are looked after."""
        self._supervise(kill.pause)
        member = self._victims[kill.kind][kill.victim]
        at = member.kill()
        self.counts[kill.kind] += 1
        if kill.kind == SHARD:
            self._kill_times.append((at, kill.victim))
        self._supervise(kill.away, gone=member)
        member.start()

    def _supervise(self, seconds, gone=None):
        """Starts again who ended without being killed, and remembers why."""
        until = time.monotonic() + seconds
        while True:
            for members in self._victims.values():
                for member in members:
                    if member is not gone and not member.running():
                        self._judge_end(member, member.collect_end())
                        member.start()
            if time.monotonic() >= until:
                return
            time.sleep(0.02)

    def _judge_end(self, member, code):
        """A process that ends by itself is a problem, but for trainers whose shard has lost rows."""
        losing = self.settings.mode not in LOSSLESS_MODES and self.counts[SHARD] > 0
        if member in self.trainers and losing and code in _LOST_SHARD_EXITS:
            return
        self.problems.append(f"{member.name} ended by itself with {code}: {member.ends[-1][1]}")

    # --- progress --------------------------------------------------------------------------------

    def _answers(self):
        return sum(path.read_bytes().count(b'"applied"')
                   for path in self.directory.glob("history-*.jsonl"))

    def _wait_for_progress(self, which):
        """Until every kind of client has got further: nothing hangs."""
        before, started = self._answers(), time.monotonic()
        while self._answers() < before + 20:
            self._supervise(0.05)
            if time.monotonic() - started > PROGRESS_SECONDS * processes.SLOWDOWN:
                self.problems.append(f"no update was answered in {PROGRESS_SECONDS} s ({which})")
                return
        if self.trainers:
            self._wait_for_training(which)

    def _wait_for_training(self, which):
        first, started = None, time.monotonic()
        while time.monotonic() - started < PROGRESS_SECONDS * processes.SLOWDOWN:
            self._supervise(0.05)
            with contextlib.suppress(grpc_client.ConnectionLost, shard_client.CallFailed):
                with grpc_client.Connection(self.cluster.coordinator_address) as connection:
                    done = shard_client.job_samples(connection, "kill-loop")
                if first is None or done < first:
                    first = done
                elif done > first:
                    return
        self.problems.append(f"no sample was trained in {PROGRESS_SECONDS} s ({which})")

    # --- the end ---------------------------------------------------------------------------------

    def finish(self):
        """Lets everything settle, ends the clients, and returns the result of the run."""
        self.cluster.wait_until_ready()
        self.cluster.wait_for_model(self.model.name)
        self._wait_for_progress("after the kills")
        self._supervise(SETTLE_SECONDS)
        for client in self.clients:
            finished = client.process.stop(within=30)
            if finished.code != 0:
                self.problems.append(f"{client.name}: {finished}")
        self._stop_trainers()
        history = read_history(sorted(self.directory.glob("history-*.jsonl")))
        addresses = [self.cluster.direct_address(shard) for shard in range(self.settings.shards)]
        sums, miscounted = final_sums(addresses, self.model, history)
        write_sums(self.directory / "sums.json", sums)
        return self._result(history, sums, miscounted)

    def _stop_trainers(self):
        for trainer in self.trainers:
            finished = trainer.process.stop(signal.SIGINT, within=30)
            if finished.code != _INTERRUPTED:
                self.problems.append(f"{trainer.name} was stopped and ended with {finished.code}: "
                                     f"{finished.stderr.strip()[-300:]}")

    def _result(self, history, sums, miscounted):
        verdict = judge(history, sums)
        loss_allowed = self.settings.mode not in LOSSLESS_MODES and self.counts[SHARD] > 0
        violations = verdict.violations(loss_allowed)
        if miscounted:
            violations["miscounted"] = len(miscounted)
        for name in ("unreported", "false_reports"):
            if getattr(verdict, name):
                violations[name] = len(getattr(verdict, name))
        if self.problems:
            violations["problems"] = len(self.problems)
        if self.settings.expect_loss and not verdict.acked_lost:
            violations["no_loss_found"] = 1
        recovery = recovery_seconds(history, self._kill_times)
        return {
            "seed": self.settings.seed, "durability": self.settings.mode,
            "shard_kills": self.counts[SHARD],
            "trainer_kills": self.counts[TRAINER] + self.counts[CLIENT],
            "coordinator_kills": self.counts[COORDINATOR],
        } | verdict.summary() | {
            "miscounted": len(miscounted),
            "recovery_p50_seconds": quantile(recovery, 0.5),
            "recovery_p99_seconds": quantile(recovery, 0.99),
            "network_faults": self.cluster.faults(),
            "trainer_ends": sum(len(trainer.ends) for trainer in self.trainers),
            "problems": self.problems, "violations": violations,
        }


def quantile(values, part):
    """None for no values."""
    if not values:
        return None
    if len(values) == 1:
        return round(values[0], 3)
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return round(cuts[min(98, max(0, int(part * 100) - 1))], 3)


def run(settings, directory, report=lambda line: None):
    """One run in `directory`, which must exist and be empty; its result."""
    planned = schedule(settings.seed, settings.kills, settings.members())
    with KillLoop(settings, directory) as loop:
        loop.start()
        for number, kill in enumerate(planned, 1):
            loop.strike(kill)
            report(f"{number}/{len(planned)}: {kill.kind} {kill.victim}")
        result = loop.finish()
    (directory / "result.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    return result


def run_kept(settings, keep=None, report=lambda line: None):
    """run() in a directory that is kept when something was wrong, or when its path is given."""
    directory = pathlib.Path(keep or tempfile.mkdtemp(prefix="dslide-kill-loop-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        result = run(settings, directory, report)
    except BaseException:
        print(f"kill loop: what there is of the run is in {directory}", file=sys.stderr)
        raise
    if result["violations"]:
        print(f"kill loop: seed {settings.seed} broke {result['violations']}; histories, sums and "
              f"logs are in {directory}", file=sys.stderr)
        for problem in result["problems"]:
            print(f"kill loop: {problem}", file=sys.stderr)
    elif keep is None:
        shutil.rmtree(directory, ignore_errors=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--durability", choices=list(DURABILITY_FLAGS), default="checkpoint")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--trainers", type=int, default=1)
    for kind in (SHARD, TRAINER, CLIENT, COORDINATOR):
        parser.add_argument(f"--{kind}-kills", type=int, default=0)
    parser.add_argument("--network", choices=["none", "faulty"], default="none")
    parser.add_argument("--rate", type=float, default=150.0)
    parser.add_argument("--expect-loss", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path, help="an empty directory that keeps the run")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"kill loop: seed {seed}", file=sys.stderr, flush=True)
    processes.use_bin_dir(options.bin_dir)
    if not supports(options.bin_dir, options.durability):
        parser.error(f"--durability {options.durability}: the programs in {options.bin_dir} do not "
                     "offer it")
    kills = {kind: getattr(options, f"{kind}_kills") for kind in (SHARD, TRAINER, CLIENT, COORDINATOR)}
    settings = Settings(seed, options.durability, options.shards, options.clients, options.trainers,
                        kills, FAULTY_NETWORK if options.network == "faulty" else None, options.rate,
                        options.expect_loss)
    result = run_kept(settings, options.keep,
                      lambda line: print(f"kill loop: {line}", file=sys.stderr, flush=True))
    print(json.dumps(result))
    sys.exit(1 if result["violations"] else 0)


if __name__ == "__main__":
    main()
