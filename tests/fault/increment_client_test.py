"""The increment client counts exactly on real shards, through cut connections and lost replies."""

from __future__ import annotations

import concurrent.futures
import sys
import threading

import increment_client
import processes
import pytest
import shard_client
from dslide.v1.shard_pb2 import ScatterResponse
from fault_plan import DOWN, UP, Rule
from fault_proxy import RunningProxy
from grpc_client import Connection, ConnectionLost
from increment_cells import LaneBook, final_sums, lane_of, model_for
from oracle import Recorder, Verdict, judge, read_history
from process_case import ProcessCase
from processes import Process, assert_ended

LANES = 80


class IncrementClientTest(ProcessCase):
    def set_up(self) -> None:
        super().set_up()
        shard = self.programs.start_lone_shard()
        self.shard, self.address = shard.process, shard.address
        self.model = model_for(LANES, 1)
        self.table = self.model.tables[0]
        with Connection(self.address) as connection:
            shard_client.create_model(connection, self.model)
        self.history = self.directory / "history"

    def count(self, at_least: int, address: str = "", repeated: int = 0,
              faults: tuple[RunningProxy, str, int] | None = None) -> Verdict:
        """Lets a client count until so many updates are acknowledged and repeated, and so many
        faults (proxy, kind, count) have struck; what is judged then."""
        settings = increment_client.Settings(
            Recorder(self.history), LaneBook(self.directory / "lanes", LANES), self.table, 1,
            2000.0, "7", 1.0)
        stopping = threading.Event()
        with concurrent.futures.ThreadPoolExecutor() as executor:
            client = executor.submit(increment_client.run, settings, [address or self.address],
                                     stopping)

            def counted() -> bool:
                counts = judge(read_history([self.history]), {}).counts
                return client.done() or (
                    counts["acked"] >= at_least and counts["repeated"] >= repeated
                    and (faults is None or faults[0].trace.counts()[faults[1]] >= faults[2]))

            try:
                processes.wait_until(counted, lambda: f"{at_least} updates", alive=[self.shard])
            finally:
                stopping.set()
            client.result()
        return self.verdict()

    def verdict(self) -> Verdict:
        history = read_history([self.history])
        sums, miscounted = final_sums([self.address], self.model, history)
        assert miscounted == []
        return judge(history, sums)

    def assert_exact(self, verdict: Verdict) -> None:
        assert verdict.violations(loss_allowed=False) == {}, verdict.summary()
        assert (verdict.unreported, verdict.false_reports) == ([], [])

    def test_counts_exactly_and_repeats_itself_on_purpose(self) -> None:
        verdict = self.count(500, repeated=1)
        self.assert_exact(verdict)
        assert verdict.counts["unknown_not_applied"] == 0

    @pytest.mark.parametrize(("rules", "struck"), [
        ([Rule("lose_reply", DOWN, every=20, frame="HEADERS")], 10),
        ([Rule("cut", UP, every=15000), Rule("cut", DOWN, every=4000)], 10),
        # Answers come too late.
        ([Rule("stall", every=40000, seconds=1.5, times=0)], 1),
        # It ends the call, and not the count.
        ([Rule("duplicate", UP, every=30, frame="DATA", times=0)], 3)],
        ids=lambda value: str(value[0].kind) if isinstance(value, list) else "")
    def test_counts_exactly_over_a_bad_network(self, rules: list[Rule], struck: int) -> None:
        proxy = self.enter(RunningProxy(self.address, 1, rules))
        self.assert_exact(self.count(100, proxy.address, faults=(proxy, rules[0].kind, struck)))

    def test_a_shard_that_forgets_is_found_out(self) -> None:
        self.assert_exact(self.count(100))
        with Connection(self.address) as connection:
            shard_client.drop_model(connection, self.model.name)
            shard_client.create_model(connection, self.model)
        verdict = self.verdict()
        assert len(verdict.acked_lost) == verdict.counts["acked"]

    def test_an_update_that_somebody_adds_again_is_found_out(self) -> None:
        self.count(10)
        with Connection(self.address) as connection:
            other = bytes(16)
            shard_client.hello(connection, "other", other, 0)
            envelope = shard_client.envelope_of("other", other, 1, 1, 0, self.model.name)
            shard_client.scatter_add(connection, envelope, self.table,
                                     lane_of(self.table, 0, 0, 1).update(3))
        history = read_history([self.history])
        sums, _ = final_sums([self.address], self.model, history)
        assert [key[2] for key in judge(history, sums).applied_twice] == [3]

    def test_a_loss_is_reported_again_when_hello_is_repeated(self) -> None:
        with Connection(self.address) as connection:
            for _ in range(2):
                assert shard_client.hello(connection, "job", bytes(15) + b"\2",
                                          acknowledged=5).next_sequence == 1

    def test_an_update_without_an_answer_is_applied_once_over_a_clean_stop(self) -> None:
        address, client = f"127.0.0.1:{processes.free_port()}", bytes(15) + b"\1"
        own = ("--listen", address, "--data-dir", self.directory / "rows")
        lane = lane_of(self.table, 0, 0, 1)

        def send(to: str) -> ScatterResponse:
            with Connection(to) as connection:
                shard_client.hello(connection, "job", client, 0)
                envelope = shard_client.envelope_of("job", client, 1, 1, 0, self.model.name)
                return shard_client.scatter_add(connection, envelope, self.table, lane.update(1))

        shard = self.programs.start_lone_shard(*own)
        with Connection(address) as connection:
            shard_client.create_model(connection, self.model)
        # The first answer is that of Hello.
        with RunningProxy(address, 1, [Rule("lose_reply", DOWN, at=1, frame="DATA")]) as proxy:
            with pytest.raises(ConnectionLost):
                send(proxy.address)
        assert_ended(shard.process.stop(), 0)
        self.programs.start_lone_shard(*own)
        assert send(address).applied_steps
        with Connection(address) as connection:
            weights, _ = shard_client.gather_bytes(connection, self.model.name, self.table.name,
                                                   sorted(lane.rows))
        assert lane.sums(weights)[0][1] == [1.0, 1.0]

    def start_client(self) -> Process:
        """As a process that has recorded something."""
        client = self.programs.start(
            increment_client.__file__, "--shard", self.address, "--history", self.history,
            "--lanes", self.directory / "lanes", "--lane-count", LANES, wrapper=[sys.executable])
        processes.wait_until(lambda: self.history.exists() and self.history.stat().st_size > 5000,
                             lambda: "a history", alive=[client])
        return client

    def test_as_a_process_it_ends_well_when_it_is_told_to(self) -> None:
        finished = self.start_client().stop()
        assert_ended(finished, 0)
        assert int(finished.stdout) > 10
        self.assert_exact(self.verdict())

    def test_a_client_that_is_killed_leaves_at_most_one_unknown_update(self) -> None:
        self.start_client().kill()
        # What it had sent may be applied later than it is looked for: its outcome is unknown.
        verdict = self.verdict()
        self.assert_exact(verdict)
        assert verdict.counts["updates"] - verdict.counts["acked"] <= 1
