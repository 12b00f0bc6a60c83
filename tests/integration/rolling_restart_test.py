"""Every shard is stopped and started in turn under a training, and no step fails or is lost.

usage: rolling_restart_test.py --bin-dir DIR [unittest arguments]

DSLIDE_TEST_ROUNDS says how often each shard is restarted (1).
"""

import os

import failures_test
import processes
import shard_crash_test
from processes import wait_until

SHARDS = 3
ROUNDS = int(os.environ.get("DSLIDE_TEST_ROUNDS", "1"))
STEPS = 60 * (1 + ROUNDS)
# A trainer rides over a restart; a failed step would end it with another exit code.
DRAIN_SECONDS = 12


class RollingRestartTest(shard_crash_test.ShardTrainingTest):
    SHARDS = SHARDS
    STEPS = STEPS

    def restart(self, shard):
        """SIGTERM, exit code 0 in time, and back on its address and data directory."""
        shard.note_loss()
        self.assert_ended(shard.server.process.stop(within=DRAIN_SECONDS), failures_test.OK,
                          "image written", "stopped")
        shard.start()

    def test_a_training_rides_over_the_restart_of_every_shard(self):
        self.start_parts_with("--durability", "log")
        undisturbed_result = self.finish(self.train())
        undisturbed = self.restarted_digests()
        self.stop_parts()
        self.keep_aside("undisturbed")

        self.start_parts_with("--durability", "log")
        trainer = self.train()
        restarts = ROUNDS * SHARDS
        for number in range(restarts):
            target = STEPS * (number + 1) / (restarts + 2)
            wait_until(lambda: self.steps(trainer) >= target, lambda: f"steps of {trainer}",
                       shard_crash_test.TRAINING_SECONDS)
            self.assertTrue(trainer.running(), trainer)
            self.restart(self.shards[number % SHARDS])
        result = self.finish(trainer)
        for field in ("steps", "epochs", "first_loss", "loss"):
            self.assertEqual(result[field], undisturbed_result[field], field)
        # One step at a time: equal bits are equal updates, each of them once.
        self.assertEqual(self.restarted_digests(), undisturbed)
        for shard in self.shards:
            shard.note_loss()
            self.assertEqual(shard.acked_loss, 0)


if __name__ == "__main__":
    processes.main()
