"""A full disk costs nothing that was acknowledged, and the same process goes on afterwards.

One that turns read-only costs nothing either, and a shard with a log a restart.
"""

from __future__ import annotations

import disk_full
import pytest
from kill_loop import Result
from small_disk import CannotMount


class DiskFullTest:
    def run_one_round(self, volume: str, fault: str = "full") -> Result:
        try:
            result = disk_full.run(17, volume, 1, fault=fault)
        except CannotMount as error:
            pytest.skip(str(error))
        assert result["wrong"] == [], result
        assert (result["acked_lost"], result["applied_twice"], result["rounds"]) == (0, 0, 1)
        return result

    def test_a_log_refuses_while_there_is_no_space(self) -> None:
        assert self.run_one_round("log")["refused_while_full"] > 0

    def test_without_a_log_updates_go_on_and_checkpoints_come_back(self) -> None:
        assert self.run_one_round("checkpoint")["applied_while_full"] > 0

    def test_a_log_that_turns_read_only_ends_the_shard_and_loses_nothing(self) -> None:
        result = self.run_one_round("log", "read-only")
        assert (result["starts_refused"], result["bit_equal_shards"]) == (1, 2)

    def test_without_a_log_updates_go_on_over_a_read_only_disk(self) -> None:
        result = self.run_one_round("checkpoint", "read-only")
        assert result["applied_while_full"] > 0
