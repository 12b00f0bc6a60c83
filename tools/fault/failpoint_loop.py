"""Lets processes of a working cluster die at every failpoint, and judges what is left.

A strike arms one failpoint of one process (core/system/failpoint.h) and makes it get there: by
load, a checkpoint, a restore, a stop, again and again until it has died there. It is started again
on its data, and updates must go on. Clusters take some strikes each; in the end the oracle judges
every update, the newest committed cluster checkpoint must verify, and the cluster must be able to
go back to one. A restore that died half-way must be finished or undone: no shard may show another
instant than the others.
"""

from __future__ import annotations

import contextlib
import pathlib
import signal
import time
from collections.abc import Callable, Sequence

import failpoints
import grpc_client
import kill_loop
import processes
import shard_client
from failpoints import Point, Strike, clusters_for, strikes_for
from fault_cluster import LOSSLESS_MODES, Member, kept
from kill_loop import Result, Settings
from kill_schedule import KILL, SHARD
from oracle import Sums
from processes import Finished, Process

# A strike is given up after so long without a hit.
REACH_SECONDS = processes.PATIENCE_SECONDS
# Of a command that cannot succeed however often it is given: wrong flags, damaged data.
_FINAL_EXITS = (2, 5)
_STOPPING = (failpoints.STOP, failpoints.START_AFTER_STOP)
# Small, so that images come every other second, and not so small that a checkpoint never finds a
# moment between two of them; one checkpoint stays, so that others go.
_FLAGS = {"coordinator": ("--checkpoint-interval", "off", "--checkpoint-keep", "1",
                          "--barrier-timeout", "1s"),
          "log": ("--log-image-interval", "256KiB"), "checkpoint": ()}


class FailpointLoop(kill_loop.KillLoop):
    """One cluster and its strikes."""

    def __init__(self, settings: Settings, strikes: Sequence[Strike], directory: pathlib.Path,
                 say: Callable[[str], None]) -> None:
        super().__init__(settings, directory)
        self._strikes, self._say = strikes, say
        self._extra_models = self._commands = 0
        self.hit: list[Strike] = []
        self.missed: list[Strike] = []

    def play(self) -> Result:
        """The result of kill_loop, and violations of its own in it."""
        first = self._strikes[0]
        if first.point.way == failpoints.FIRST_START:
            self._first_start(first)
        else:
            self.start()
        for strike in self._strikes:
            if strike.point.way == failpoints.FIRST_START:
                continue
            if strike.point.way == failpoints.RESTORE:
                self._strike_at_restore(strike)
            else:
                self._strike_under_load(strike)
        result = self._finish_restores() if first.point.way == failpoints.RESTORE else self.finish()
        self._check_checkpoints()
        violations = result["violations"]
        if self.settings.mode not in LOSSLESS_MODES:
            # Going back gives numbers a second time.
            violations.pop("steps_shared", None)
        violations.pop("problems", None)  # each is told
        return result | {"problems": self.problems}

    # --- strikes ---------------------------------------------------------------------------------

    def _victim(self, point: Point) -> Member:
        return self.cluster.coordinator if point.program == "coordinator" else \
            self.cluster.shards[0]

    def _died_there(self, strike: Strike, victim: Member) -> bool:
        """Whether the victim died at the failpoint. Other ends are problems, but those of stops."""
        if victim.running():
            return False
        finished = victim.process.finish()
        named = f"failpoint {strike.point.name} " in finished.stderr
        if finished.code == -signal.SIGKILL and named:
            return True
        if finished.code != 0 or strike.point.way not in _STOPPING:
            self.problems.append(f"{victim.name} was to die at {strike}: {finished}")
        return False

    def _note(self, strike: Strike, victim: Member, hit: bool) -> None:
        """Counts the strike; the victim is down afterwards."""
        victim.kill()
        (self.hit if hit else self.missed).append(strike)
        if strike.point.program == SHARD:
            self.counts[SHARD, KILL] += 1
        self._say(f"{'hit' if hit else 'NOT HIT'}: {strike}")

    def _arm(self, strike: Strike) -> Member:
        setting = f"{strike.point.name}:{strike.occurrence}"
        victim = self._victim(strike.point)
        victim.start({"DSLIDE_FAILPOINTS": setting})
        return victim

    def _first_start(self, strike: Strike) -> None:
        """Here the victim has no state yet when it dies."""
        for member in (self.cluster.coordinator, *self.cluster.shards[1:]):
            member.start()
        victim, until = self._arm(strike), time.monotonic() + REACH_SECONDS
        while victim.running() and time.monotonic() < until:
            time.sleep(0.02)  # there are no clients yet who would be looked after
        self._note(strike, victim, self._died_there(strike, victim))
        victim.start()
        self.cluster.wait_until_ready()
        self.cluster.register_model(self.model)
        for client in self.clients:
            client.start()
        self._wait_for_progress(f"after {strike}")

    def _strike_under_load(self, strike: Strike) -> None:
        victim = self._victim(strike.point)
        loses_rows = strike.point.way == failpoints.REGISTRATION and \
            self.settings.mode not in LOSSLESS_MODES
        if loses_rows:
            self._must("checkpoint", "create")
            processes.wait_until(lambda: self.cluster.restore_count() is not None,
                                 lambda: "a map")
            before = self.cluster.restore_count() or 0
        self._down_for(strike.point, victim)
        self._note(strike, victim, self._strike_until_hit(strike))
        victim.start()
        self.cluster.wait_until_ready()
        self.cluster.wait_for_model(self.model.name)
        self._wait_for_progress(f"after {strike}")
        if loses_rows:
            # However little the coordinator had done about it: the others must not go on alone.
            processes.wait_until(lambda: (self.cluster.restore_count() or 0) > before,
                                 lambda: f"the cluster was restored after {strike}")

    @staticmethod
    def _down_for(point: Point, victim: Member) -> None:
        """Ends the victim as its next start has to find it."""
        if point.way == failpoints.START_AFTER_STOP:
            victim.process.stop()
        victim.kill()

    def _strike_until_hit(self, strike: Strike) -> bool:
        """Starts the victim armed and provokes; whether it has died there in the end.

        Some points are not on every way: a stop moves a checkpoint aside where one was before, a
        start applies again what has come since the last image.
        """
        until = time.monotonic() + REACH_SECONDS
        while True:
            victim = self._arm(strike)
            self._provoke(strike, victim, until)
            before = len(self.problems)
            hit = self._died_there(strike, victim)
            if hit or len(self.problems) > before or time.monotonic() >= until:
                return hit
            self._down_for(strike.point, victim)

    def _provoke(self, strike: Strike, victim: Member, until: float) -> None:
        """One start's way to the point, or many checkpoints and registrations."""
        point = strike.point
        if point.way == failpoints.LOAD:
            self._await_death(victim, until)
            return
        if not self._await_service(victim):
            return  # dead already
        if point.way in (failpoints.REPLAY, failpoints.START_AFTER_STOP):
            # It was not there. More updates than have to be applied again before its next start:
            wanted = self._answers()[0] + 2 * strike.occurrence
            while victim.running() and self._answers()[0] < wanted and time.monotonic() < until:
                self._supervise(0.02, gone=victim)
            return
        if point.way == failpoints.STOP:
            victim.process.send(signal.SIGTERM)
            self._await_death(victim, until)
            return
        while victim.running() and time.monotonic() < until:
            if point.way == failpoints.REGISTRATION and point.mode in LOSSLESS_MODES:
                self._register_another_model()
            elif point.way == failpoints.REGISTRATION:
                self._lose_a_shards_rows(victim)
            else:
                self._checkpoint_until_death(victim, until)
            # Removing the one before is the last that a checkpoint does.
            self._await_death(victim, time.monotonic() + 0.3)

    def _checkpoint_until_death(self, victim: Member, until: float) -> None:
        """One checkpoint. Commands wait for who is dead: this one is given up then."""
        operator = self._begin("checkpoint", "create")
        while operator.running() and victim.running() and time.monotonic() < until:
            self._supervise(0.02, gone=victim)
        operator.kill()

    def _await_death(self, victim: Member, until: float) -> None:
        """Meanwhile the others are looked after."""
        while victim.running() and time.monotonic() < until:
            self._supervise(0.02, gone=victim)

    def _await_service(self, victim: Member) -> bool:
        """Until the whole cluster answers with the armed victim in it; false if it dies before."""
        until = time.monotonic() + processes.PATIENCE_SECONDS
        while victim.running():
            with contextlib.suppress(AssertionError, grpc_client.ConnectionLost,
                                     grpc_client.CallFailed):
                with grpc_client.Connection(self.cluster.coordinator_address) as connection:
                    places = shard_client.cluster_map(connection).shards
                for place in places:
                    with grpc_client.Connection(place.address) as connection:
                        shard_client.describe_model(connection, self.model.name)
                return True
            if time.monotonic() > until:
                raise AssertionError(f"the cluster does not get ready with {victim.name} armed: "
                                     f"{victim.process}")
            self._supervise(0.05, gone=victim)
        return False

    def _lose_a_shards_rows(self, victim: Member) -> None:
        """A shard comes back without its rows, and registers."""
        self.cluster.shards[-1].kill()
        self.counts[SHARD, KILL] += 1
        self.cluster.shards[-1].start()
        self._await_service(victim)

    def _register_another_model(self) -> None:
        self._extra_models += 1
        table = shard_client.table_spec("cells", 64, 16)
        model = shard_client.model_spec(f"extra-{self._extra_models}", table)
        with contextlib.suppress(grpc_client.ConnectionLost, grpc_client.CallFailed):
            self.cluster.register_model(model)

    def _dslide(self, *arguments: object) -> Finished:
        """A command of the operator; how it ended."""
        process = self._begin(*arguments)
        finished = process.finish()
        process.kill()
        return finished

    def _begin(self, *arguments: object) -> Process:
        """A command of the operator that runs on."""
        self._commands += 1
        directory = self.directory / f"command-{self._commands}"
        directory.mkdir()
        process = processes.Process("dslide", [*arguments, "--cluster",
                                               self.cluster.coordinator_address], directory)
        self.callback(process.kill)
        return process

    # --- restores --------------------------------------------------------------------------------

    def _sums(self) -> list[Sums]:
        """What the rows of each shard say of each update."""
        _, sums, _ = self.read_sums()
        return [{key: cells for key, cells in sums.items() if key[1] == shard}
                for shard in range(self.settings.shards)]

    def _count_for_a_while(self) -> None:
        """Changes rows on every shard by clients that have gone afterwards."""
        for client in self.clients:
            if not client.running():
                client.start()
        self._wait_for_progress("between restores")
        self.stop_clients()
        for client in self.clients:
            client.kill()

    def _must(self, *arguments: object) -> None:
        """A command until it succeeds; a problem if it never will.

        Who was killed just now may not be known yet, and a shard that writes an image of its own
        asks to be asked later.
        """
        last: list[Finished] = []

        def done() -> bool:
            last[:] = [self._dslide(*arguments)]
            return last[0].code in (0, *_FINAL_EXITS)

        processes.wait_until(done, lambda: str(last[0]))
        if last[0].code != 0:
            self.problems.append(str(last[0]))

    def _strike_at_restore(self, strike: Strike) -> None:
        """The cluster is restored to `saved` from `later`, and somebody dies meanwhile."""
        self._count_for_a_while()
        self._must("checkpoint", "create")
        saved = self._sums()
        self._count_for_a_while()
        later = self._sums()
        self._victim(strike.point).kill()
        victim = self._arm(strike)
        with contextlib.suppress(AssertionError):
            self.cluster.wait_until_ready()
        operator = self._restore_until_death(victim)
        self._note(strike, victim, self._died_there(strike, victim))
        if strike.coordinator_too:
            # With the command, which would ask again: nobody but the cluster itself remembers.
            if operator is not None:
                operator.kill()
            self.cluster.coordinator.kill()
            self.cluster.coordinator.start()
        victim.start()
        if operator is not None and not strike.coordinator_too:
            operator.finish()
            operator.kill()
        self._must_agree(strike, saved, later)
        self._must("checkpoint", "restore", "--yes")
        if self._sums() != saved:
            self.problems.append(f"after {strike}, a second restore gave other rows than the first "
                                 "was to give")

    def _restore_until_death(self, victim: Member) -> Process | None:
        """The operator's command of which the victim has died; None when it was dead before.

        It may wait for the victim to come back; what it ends with is no matter.
        """
        operator, until = None, time.monotonic() + REACH_SECONDS
        while victim.running() and time.monotonic() < until:
            if operator is None or not operator.running():
                operator = self._begin("checkpoint", "restore", "--yes")
            time.sleep(0.02)
        return operator

    def _must_agree(self, strike: Strike, saved: list[Sums], later: list[Sums]) -> None:
        """All shards show one instant, within some time of the restart."""
        seen: list[str] = []

        def agree() -> bool:
            with contextlib.suppress(grpc_client.ConnectionLost, grpc_client.CallFailed):
                if self.cluster.restore_count() is not None:
                    seen[:] = ["saved" if rows == back else "later" if rows == ahead else "neither"
                               for rows, back, ahead in zip(self._sums(), saved, later)]
            return len(set(seen)) == 1 and seen[0] != "neither"

        try:
            processes.wait_until(agree, lambda: "one instant")
        except AssertionError:
            self.problems.append(f"after {strike}, the shards show different instants: {seen}")

    def _finish_restores(self) -> Result:
        """Nothing is left to judge but that updates go on."""
        self._count_for_a_while()
        return {"violations": {}}

    # --- the end ---------------------------------------------------------------------------------

    def _check_checkpoints(self) -> None:
        """The newest one verifies; another one can be taken; and the cluster can go back to it."""
        listed = self._dslide("checkpoint", "list", "-o", "json")
        if listed.code == 0 and '"checkpoint_id"' in listed.stdout:
            self._must("checkpoint", "verify")
        before = self._sums()
        self._must("checkpoint", "create")
        self._must("checkpoint", "verify")
        self._must("checkpoint", "restore", "--yes")
        if self._sums() != before:
            self.problems.append("a restore in the end gave other rows than were kept")


def _settings(strikes: Sequence[Strike], seed: int) -> Settings:
    mode = strikes[0].point.mode
    return kill_loop.Settings(
        seed, mode, shards=2, clients=1, trainers=0, strikes={(SHARD, KILL): len(strikes)},
        cluster={"coordinator_flags": _FLAGS["coordinator"], "shard_flags": _FLAGS[mode]})


def run(points: Sequence[Point], seed: int, runs: int = 1,
        say: Callable[[str], None] = lambda line: None) -> Result:
    """{failpoints, failpoints_hit, failpoint_violations, ...} of strikes at all the points."""
    strikes = strikes_for(points, runs, seed)
    hit: set[Point] = set()
    missed, violations, ended = list[Strike](), list[str](), 0
    for part in clusters_for(strikes):
        with kept("failpoints", violations) as directory, FailpointLoop(
                _settings(part, seed), part, directory, lambda line: say(
                    f"{ended + len(loop.hit) + len(loop.missed)}/{len(strikes)}: {line}")) as loop:
            try:
                result = loop.play()
                wrong = [*(f"{name}: {count}" for name, count in result["violations"].items()),
                         *result["problems"]]
                violations += [f"{', '.join(map(str, part))}: {what}" for what in wrong]
            finally:
                hit |= {strike.point for strike in loop.hit}
                missed += loop.missed
        ended += len(part)
    return {"failpoints": len(set(points)), "failpoints_hit": len(hit),
            "failpoint_violations": len(violations), "violations": violations,
            "not_hit": sorted({str(strike.point) for strike in missed} - set(map(str, hit)))}
