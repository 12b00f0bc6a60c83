"""The increment client counts exactly on real shards, through cut connections and lost replies."""

from __future__ import annotations

import concurrent.futures
import sys
import threading
from collections.abc import Callable, Mapping

import grpc_client
import increment_client
import processes
import pytest
import shard_client
from dslide.v1.shard_pb2 import ScatterResponse
from fault_plan import DOWN, UP, Rule
from fault_proxy import RunningProxy
from final_sums import final_sums
from increment_cells import (
    LaneBook,
    lane_of,
    model_for,
)
from oracle import Recorder, Verdict, judge, read_history
from process_case import ProcessCase
from processes import Process, assert_ended

LANES = 80


class IncrementClientTest(ProcessCase):
    def set_up(self) -> None:
        super().set_up()
        process = self.start("dslide-shard", "--coordinator", "", "--admin", "")
        self.shard = process
        self.address = process.wait_for_stderr(r" serving address=(\S+)").group(1)
        self.model = model_for(LANES, 1)
        with grpc_client.Connection(self.address) as connection:
            shard_client.create_model(connection, self.model)
        self.history = self.directory / "history"
        self.lanes = LaneBook(self.directory / "lanes", LANES)

    def proxy(self, *rules: Rule, seed: int = 1) -> RunningProxy:
        return self.enter(RunningProxy(self.address, seed, rules))

    def count(self, address: str, at_least: int,
              enough: Callable[[Mapping[str, int]], bool] = lambda counts: True) -> Verdict:
        """Lets a client count until so many updates are acknowledged and `enough(counts of the
        verdict)`, and judges it."""
        settings = increment_client.Settings(Recorder(self.history), self.lanes,
                                             self.model.tables[0], 1, 2000.0, "7", 1.0)
        stopping = threading.Event()
        with concurrent.futures.ThreadPoolExecutor() as executor:
            client = executor.submit(increment_client.run, settings, [address], stopping)

            def counted() -> bool:
                counts = judge(read_history([self.history]), {}).counts
                return client.done() or counts["acked"] >= at_least and enough(counts)

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
        verdict = self.count(self.address, 500, lambda counts: counts["repeated"] > 0)
        self.assert_exact(verdict)
        assert verdict.counts["unknown_not_applied"] == 0

    def test_counts_exactly_while_replies_are_lost(self) -> None:
        proxy = self.proxy(Rule("lose_reply", DOWN, every=20, frame="HEADERS"))
        self.assert_exact(self.count(
            proxy.address, 200, lambda counts: proxy.trace.counts().get("lose_reply", 0) > 10
            and counts["repeated"] > 10))

    def test_counts_exactly_while_connections_are_cut_anywhere(self) -> None:
        proxy = self.proxy(Rule("cut", UP, every=15000), Rule("cut", DOWN, every=4000))
        self.assert_exact(self.count(
            proxy.address, 200, lambda _: proxy.trace.counts().get("cut", 0) > 10))

    def test_counts_exactly_when_answers_come_too_late(self) -> None:
        proxy = self.proxy(Rule("stall", every=40000, seconds=1.5, times=0))
        self.assert_exact(self.count(
            proxy.address, 100, lambda _: proxy.trace.counts().get("stall", 0) > 0))

    def test_a_duplicated_frame_ends_the_call_and_not_the_count(self) -> None:
        proxy = self.proxy(Rule("duplicate", UP, every=30, frame="DATA", times=0))
        self.assert_exact(self.count(
            proxy.address, 100, lambda _: proxy.trace.counts().get("duplicate", 0) > 3))

    def test_a_shard_that_forgets_is_found_out(self) -> None:
        self.assert_exact(self.count(self.address, 100))
        with grpc_client.Connection(self.address) as connection:
            shard_client.drop_model(connection, self.model.name)
            shard_client.create_model(connection, self.model)
        verdict = self.verdict()
        assert len(verdict.acked_lost) == verdict.counts["acked"]

    def test_an_update_that_somebody_adds_again_is_found_out(self) -> None:
        self.count(self.address, 10)
        lane = lane_of(self.model.tables[0], 0, 0, 1)
        with grpc_client.Connection(self.address) as connection:
            other = bytes(16)
            shard_client.hello(connection, "other", other, 0)
            envelope = shard_client.envelope_of("other", other, 1, 1, 0, self.model.name)
            shard_client.scatter_add(connection, envelope, self.model.tables[0], lane.update(3))
        history = read_history([self.history])
        sums, miscounted = final_sums([self.address], self.model, history)
        assert [key[2] for key in judge(history, sums).applied_twice] == [3]
        assert miscounted == []

    def test_a_loss_is_reported_again_when_hello_is_repeated(self) -> None:
        client = bytes(15) + b"\2"
        with grpc_client.Connection(self.address) as connection:
            for _ in range(2):
                welcome = shard_client.hello(connection, "job", client, acknowledged=5)
                assert welcome.next_sequence == 1

    def test_an_update_without_an_answer_is_applied_once_over_a_clean_stop(self) -> None:
        port, data_dir = processes.free_port(), self.directory / "rows"
        address, client = f"127.0.0.1:{port}", bytes(15) + b"\1"
        lane = lane_of(self.model.tables[0], 0, 0, 1)

        def start() -> Process:
            shard = self.start("dslide-shard", "--coordinator", "", "--admin", "", "--listen",
                               address, "--data-dir", data_dir)
            shard.wait_for_stderr(r" serving address=")
            return shard

        def send(to: str) -> ScatterResponse:
            with grpc_client.Connection(to) as connection:
                shard_client.hello(connection, "job", client, 0)
                envelope = shard_client.envelope_of("job", client, 1, 1, 0, self.model.name)
                return shard_client.scatter_add(connection, envelope, self.model.tables[0],
                                                lane.update(1))

        shard = start()
        with grpc_client.Connection(address) as connection:
            shard_client.create_model(connection, self.model)
        # The first answer is that of Hello.
        with RunningProxy(address, 1, [Rule("lose_reply", DOWN, at=1, frame="DATA")]) as proxy:
            with pytest.raises(grpc_client.ConnectionLost):
                send(proxy.address)
        assert_ended(shard.stop(), 0)
        start()
        assert send(address).applied_steps
        with grpc_client.Connection(address) as connection:
            weights, _ = shard_client.gather_bytes(connection, self.model.name,
                                                   self.model.tables[0].name, sorted(lane.rows))
        assert lane.sums(weights)[0][1] == [1.0, 1.0]

    def test_as_a_process_it_ends_well_when_it_is_told_to(self) -> None:
        client = self.start_client()
        processes.wait_until(lambda: self.history.exists() and self.history.stat().st_size > 5000,
                             lambda: "a history", alive=[client])
        finished = client.stop()
        assert_ended(finished, 0)
        assert int(finished.stdout) > 10
        self.assert_exact(self.verdict())

    def test_a_client_that_is_killed_leaves_at_most_one_unknown_update(self) -> None:
        client = self.start_client()
        processes.wait_until(lambda: self.history.exists() and self.history.stat().st_size > 5000,
                             lambda: "a history", alive=[client])
        client.kill()
        # What it had sent may be applied later than it is looked for: its outcome is unknown.
        verdict = self.verdict()
        self.assert_exact(verdict)
        assert verdict.counts["updates"] - verdict.counts["acked"] <= 1

    def start_client(self) -> Process:
        directory = self.directory / "client"
        directory.mkdir()
        client = processes.Process(
            increment_client.__file__,
            ["--shard", self.address, "--history", self.history,
             "--lanes", self.directory / "lanes", "--lane-count", LANES], directory,
            wrapper=[sys.executable])
        self._entered.callback(client.kill)
        return client
