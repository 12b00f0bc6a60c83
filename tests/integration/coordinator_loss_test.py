"""A trainer whose coordinator does not come back gives up after its two minutes, and says so.

Takes a little more than the two minutes, nearly all of them waiting.
"""

import failures_test
from processes import assert_ended

PATIENCE_SECONDS = 120


class CoordinatorLossTest(failures_test.FailureTest):
    def test_training_ends_when_the_coordinator_stays_away(self) -> None:
        coordinator, _ = self.start_parts()
        trainer = self.start_training("--cluster", coordinator.address, "--timeout",
                                      f"{failures_test.TIMEOUT}s")
        coordinator.process.kill()
        finished = trainer.finish()
        assert_ended(finished, failures_test.UNREACHABLE,
                     rf"the coordinator is away, trying again: .*{coordinator.address}",
                     rf"\ndslide train: coordinator at {coordinator.address}, ")
        assert finished.seconds > PATIENCE_SECONDS
