"""`dslide top` and `dslide status --watch` beside a cluster at work."""

import collections
import json
import signal
from typing import Any

import processes
import pytest
from processes import Programs, assert_ended
from sample_cluster import SampleCluster

pytestmark = pytest.mark.usefixtures("bin_dir")


def test_rates_of_every_process_in_one_frame(programs: Programs) -> None:
    cluster = SampleCluster(programs)
    pages = ",".join(address for some in cluster.admins.values() for address in some)
    top = ("top", "--cluster", cluster.coordinator.address, "--admin", pages)
    # Elsewhere than on a terminal one frame is the end, also without --once.
    for once in (["--once"], []):
        finished = programs.run_dslide(*top, "--interval", "1s", *once)
        assert_ended(finished, 0)
        assert "2 of 2 shards alive" in finished.stdout
        assert "\x1b" not in finished.stdout
        assert finished.stdout.count("samples/s") == 2  # of jobs, of processes

    def worked() -> Any:
        """{kind: [row]} of one frame, where shards and trainer have worked meanwhile."""
        finished = programs.run_dslide(*top, "--interval", "2s", "--once", "-o", "json")
        assert_ended(finished, 0)
        assert finished.json()["shards_alive"] == 2
        rows = collections.defaultdict(list)
        for row in finished.json()["processes"]:
            rows[row["process"].split()[0]].append(row)
        busy = all(row["samples_per_second"] for row in [*rows["shard"], *rows["trainer"]])
        return rows if busy else None

    # Work comes in chunks, and slowly where others work: a frame may have met none.
    rows = processes.wait_until(worked, lambda: "a frame with work of everybody",
                                [cluster.trainer])
    counts = {kind: len(found) for kind, found in rows.items()}
    assert counts == {"coordinator": 1, "shard": 2, "trainer": 1}
    assert sorted(row["process"] for row in rows["shard"]) == ["shard 0", "shard 1"]
    for row in [*rows["shard"], *rows["trainer"]]:
        for figure in ("samples_per_second", "received_bytes_per_second", "sent_bytes_per_second",
                       "memory_bytes"):
            assert row[figure] > 0, row
    for row in rows["shard"]:
        assert row["queue_commands"] >= 0, row
        assert row["queue_p99_seconds"] > 0, row
    cluster.stop()


def test_status_is_watched_until_ctrl_c(programs: Programs) -> None:
    coordinator = programs.start_coordinator()
    watch = programs.start("dslide", "status", "--cluster", coordinator.address, "--watch",
                           "--interval", "100ms", "-o", "json")
    processes.wait_until(lambda: watch.stdout.count("\n") >= 3, lambda: "3 frames", [watch])
    finished = watch.stop(signal.SIGINT)
    assert_ended(finished, 0)
    frames = [json.loads(line) for line in finished.stdout.splitlines()]
    assert {frame["expected_shards"] for frame in frames} == {1}
