"""The Debian package set on a cluster: the accuracy of one process, and the bytes of the kernel.

usage: debian_cluster_test.py --bin-dir DIR [unittest arguments]

Needs DSLIDE_TEST_DEBIAN_DATA, a directory with train.txt and test.txt (dslide data debian-packages
makes one), and is skipped without. Takes several minutes; prints its figures.
"""

import os
import pathlib

import processes
import training
from network_namespace import NetworkNamespace

SPEC = pathlib.Path(__file__).resolve().parents[2] / "docs/models/debian-packages.json"


class DebianClusterTest(processes.ProcessTest):
    PRECISION_TOLERANCE = 0.01
    TRAFFIC_TOLERANCE = 0.05
    SECONDS = 1800

    def setUp(self):
        super().setUp()
        directory = pathlib.Path(os.environ.get("DSLIDE_TEST_DEBIAN_DATA", "")).resolve()
        self.data = training.DataSet(directory / "train.txt", directory / "test.txt")
        if not (self.data.train.is_file() and self.data.test.is_file()):
            self.skipTest("DSLIDE_TEST_DEBIAN_DATA names no directory with train.txt and test.txt")

    def test_two_trainers_on_four_shards_learn_what_one_process_learns(self):
        settings = ["--model", SPEC]
        embedded = training.train_embedded(self, self.data, settings, self.SECONDS)
        self.report("embedded", embedded)
        network = self.own_network()
        cluster = self.start_cluster("--data-dir", self.directory / "rows",
                                     shards=training.SHARDS)
        before = network.loopback_bytes() if network else 0
        results = training.train_on_cluster(self, cluster, self.data, settings, self.SECONDS)
        for result in results:
            self.report("trainer", result)
        if network:
            self.check_traffic(training.bytes_moved(results), network.loopback_bytes() - before)
        for result in results:
            self.assertAlmostEqual(result["p_at_1"], embedded["p_at_1"],
                                   delta=self.PRECISION_TOLERANCE)
        self.assert_ended(cluster.process.stop(), 0)

    def own_network(self):
        """A network whose bytes can be counted, or None: precision is compared all the same."""
        try:
            return self.enterContext(NetworkNamespace())
        except OSError as error:
            print(f"SKIPPED bytes: needs a network namespace of its own, so root: {error}")
            return None

    def check_traffic(self, reported, counted):
        print(f"bytes: reported by the trainers {reported:,}, counted by the kernel {counted:,} "
              f"({reported / counted - 1:+.2%})", flush=True)
        self.assertAlmostEqual(reported, counted, delta=self.TRAFFIC_TOLERANCE * counted)

    def report(self, name, result):
        print(f"{name}: P@1 {result['p_at_1']:.4f}, P@3 {result['p_at_3']:.4f}, "
              f"P@5 {result['p_at_5']:.4f}, {result['steps']} steps in {result['seconds']:.0f} s, "
              f"{result['samples_per_second']:.0f} samples/s", flush=True)


if __name__ == "__main__":
    processes.main()
