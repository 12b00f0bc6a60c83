"""Every shard is stopped and started in turn under a training, and no step fails or is lost.

DSLIDE_TEST_ROUNDS says how often each shard is restarted (1).
"""

from __future__ import annotations

import os

import failures_test
import shard_crash_test
from processes import assert_ended

SHARDS = 3
ROUNDS = int(os.environ.get("DSLIDE_TEST_ROUNDS", "1"))
STEPS = 60 * (1 + ROUNDS)


class RollingRestartTest(shard_crash_test.ShardTrainingTest):
    SHARDS = SHARDS
    STEPS = STEPS

    def restart(self, shard: shard_crash_test.LoggingShard) -> None:
        """SIGTERM, exit code 0, and back on its address and data directory."""
        shard.note_loss()
        assert_ended(shard.server.process.stop(), failures_test.OK, "image written", "stopped")
        shard.start()

    def test_a_training_rides_over_the_restart_of_every_shard(self) -> None:
        self.start_parts_with("--durability", "log")
        undisturbed_result = self.finish(self.train())
        undisturbed = self.restarted_digests()
        self.stop_parts()
        self.keep_aside("undisturbed")

        self.start_parts_with("--durability", "log")
        trainer = self.train()
        restarts = ROUNDS * SHARDS
        for number in range(restarts):
            # In the first half: what is left is time for this process to see the last one.
            self.wait_for_steps(trainer, STEPS * (number + 1) / (2 * restarts))
            self.restart(self.shards[number % SHARDS])
        result = self.finish(trainer)
        for field in ("steps", "epochs", "first_loss", "loss"):
            assert result[field] == undisturbed_result[field], field
        # One step at a time: equal bits are equal updates, each of them once.
        assert self.restarted_digests() == undisturbed
        for shard in self.shards:
            shard.note_loss()
            assert shard.acked_loss == 0
