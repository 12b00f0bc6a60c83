"""A cluster of processes learns what one process does, and counts its bytes as the kernel does."""

import pytest
import training
from network_namespace import NetworkNamespace
from process_case import ProcessCase
from processes import assert_ended


class ClusterTrainingTest(ProcessCase):
    # A head that hashes, and held-out points that choose the epoch: as models are really trained.
    # One step under way per trainer, small enough that there are many: two trainers work on older
    # rows than one does, and a training as short as this must not depend on that.
    SETTINGS = ["--epochs", 5, "--learning-rate", 0.008, "--max-active", 300, "--dim", 64,
                "--batch-size", 128, "--in-flight", 1]
    # What is still lost by it, at most: 0.003 to 0.025 were seen in 20 runs.
    STALENESS = 0.03

    def test_two_trainers_on_four_shards_learn_what_one_process_learns(self) -> None:
        data = training.generate(self)
        embedded = training.train_embedded(self, data, self.SETTINGS)
        cluster = self.start_cluster("--data-dir", self.directory / "rows",
                                     shards=training.SHARDS)
        results = training.train_on_cluster(self, cluster, data, self.SETTINGS)

        tolerance = self.STALENESS + training.precision_tolerance(embedded["p_at_1"],
                                                                  data.test_points())
        baseline = data.most_frequent_precision()
        print(f"P@1: embedded {embedded['p_at_1']:.4f}, "
              f"trainers {', '.join(format(result['p_at_1'], '.4f') for result in results)}, "
              f"tolerance {tolerance:.4f}, most frequent label {baseline:.4f}; "
              f"steps of the trainers: {[result['steps'] for result in results]}", flush=True)
        for result in [embedded, *results]:
            assert result["p_at_1"] > 0.5
            assert result["p_at_1"] == pytest.approx(embedded["p_at_1"], abs=tolerance)
        assert baseline < 0.05
        # Neither trainer had the job to itself.
        for result in results:
            assert result["steps"] > 0
        assert_ended(cluster.process.stop(), 0)


class TrafficTest(ProcessCase):
    # Wide and large batches: what counts is the payload, not headers and heartbeats.
    SETTINGS = ["--epochs", 1, "--dim", 256, "--batch-size", 512, "--max-active", 0,
                "--validation-fraction", 0]

    def test_the_reported_bytes_are_those_of_the_network(self) -> None:
        data = training.generate(self, test_points=1000)
        try:
            network = self.enter(NetworkNamespace())
        except OSError as error:
            pytest.skip(f"needs a network namespace of its own, so root: {error}")
        cluster = self.start_cluster(shards=training.SHARDS)
        before = network.loopback_bytes()
        results = training.train_on_cluster(self, cluster, data, self.SETTINGS)
        training.assert_bytes_counted(results, network.loopback_bytes() - before)
