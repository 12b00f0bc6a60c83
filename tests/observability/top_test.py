"""`dslide top` and `dslide status --watch` beside a cluster at work.

usage: top_test.py --bin-dir DIR [unittest arguments]
"""

import json
import signal

import observability_paths  # noqa: F401  (finds the modules below)
import processes
from sample_cluster import SampleCluster


class TopTest(processes.ProcessTest):
    def test_rates_of_every_process_in_one_frame(self):
        cluster = SampleCluster(self)
        cluster.wait_until_busy()
        pages = ",".join(address for some in cluster.admins().values() for address in some)
        # Elsewhere than on a terminal one frame is the end, also without --once.
        for once in (["--once"], []):
            finished = self.run_dslide("top", "--cluster", cluster.coordinator.address, "--admin",
                                       pages, "--interval", "1s", *once)
            self.assert_ended(finished, 0)
            self.assertIn("2 of 2 shards alive", finished.stdout)
            self.assertNotIn("\x1b", finished.stdout)
            self.assertEqual(finished.stdout.count("samples/s"), 2)  # of jobs, of processes

        def kinds():
            """{kind: [row]} of one frame."""
            finished = self.run_dslide("top", "--cluster", cluster.coordinator.address, "--admin",
                                       pages, "--interval", "2s", "--once", "-o", "json")
            self.assert_ended(finished, 0)
            self.assertEqual(finished.json()["shards_alive"], 2)
            by_kind = {}
            for row in finished.json()["processes"]:
                by_kind.setdefault(row["process"].split()[0], []).append(row)
            return by_kind

        def worked(by_kind):
            return all(row["samples_per_second"]
                       for row in [*by_kind["shard"], *by_kind["trainer"]])

        # Work comes in chunks, and slowly where others work: a frame may have met none.
        by_kind = processes.wait_until(
            lambda: frame if worked(frame := kinds()) else None,
            lambda: "a frame with work of everybody", alive=[cluster.trainer])
        self.assertEqual({kind: len(rows) for kind, rows in by_kind.items()},
                         {"coordinator": 1, "shard": 2, "trainer": 1})
        self.assertEqual(sorted(row["process"] for row in by_kind["shard"]), ["shard 0", "shard 1"])
        for row in [*by_kind["shard"], *by_kind["trainer"]]:
            with self.subTest(process=row):
                self.assertGreater(row["samples_per_second"], 0)
                self.assertGreater(row["received_bytes_per_second"], 0)
                self.assertGreater(row["sent_bytes_per_second"], 0)
                self.assertGreater(row["memory_bytes"], 0)
        for row in by_kind["shard"]:
            self.assertGreaterEqual(row["queue_commands"], 0)
            self.assertGreater(row["queue_p99_seconds"], 0)
        cluster.stop()

    def test_the_coordinator_alone_is_enough(self):
        coordinator = self.start_coordinator()
        self.start_shard(coordinator, "--admin", "")
        finished = self.run_dslide("top", "--cluster", coordinator.address, "--interval", "200ms",
                                   "-o", "json", "--once")
        self.assert_ended(finished, 0)
        frame = finished.json()
        self.assertEqual([row["process"] for row in frame["processes"]], ["shard 0"])
        self.assertIsNone(frame["processes"][0]["sent_bytes_per_second"])

    def test_status_is_watched_until_ctrl_c(self):
        coordinator = self.start_coordinator()
        watch = self.start("dslide", "status", "--cluster", coordinator.address, "--watch",
                           "--interval", "100ms", "-o", "json")
        processes.wait_until(lambda: watch.stdout.count("\n") >= 3, lambda: "3 frames",
                             alive=[watch])
        finished = watch.stop(signal.SIGINT)
        self.assert_ended(finished, 0)
        frames = [json.loads(line) for line in finished.stdout.splitlines()]
        self.assertEqual({frame["expected_shards"] for frame in frames}, {1})

    def test_an_absent_coordinator_and_bad_flags_are_errors(self):
        address = f"127.0.0.1:{processes.free_port()}"
        finished = self.run_dslide("top", "--cluster", address, "--timeout", "1s", "--once")
        self.assert_ended(finished, 4, address)
        finished = self.run_dslide("top", "--interval", "1")
        self.assert_ended(finished, 2, "--interval 1: must be a time")


if __name__ == "__main__":
    processes.main()
