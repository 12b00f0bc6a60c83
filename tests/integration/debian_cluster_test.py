"""The Debian package set on a cluster: the accuracy of one process, and the bytes of the kernel.

The set is made of this machine's apt index; skipped where there is none. An hour, so a part of
`./run nightly` and of no check: cluster_training_test.py shows the same of generated data. Prints
its figures.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import pytest
import training
from network_namespace import NetworkNamespace
from process_case import ProcessCase
from processes import assert_ended

SPEC = pathlib.Path(__file__).resolve().parents[2] / "docs/models/debian-packages.json"


class DebianClusterTest(ProcessCase):
    SECONDS = 1800
    PRECISION_TOLERANCE = 0.01

    def make_data(self) -> Any:
        made = self.run_dslide("data", "debian-packages", "--output", self.directory / "set",
                               within=120)
        if "no apt package index" in made.stderr:
            pytest.skip("no apt package index here; apt-get update fetches it")
        assert_ended(made, 0)
        return training.DataSet(self.directory / "set/train.txt", self.directory / "set/test.txt")

    def test_two_trainers_on_four_shards_learn_what_one_process_learns(self) -> None:
        data = self.make_data()
        settings = ["--model", SPEC]
        embedded = training.train_embedded(self, data, settings, self.SECONDS)
        self.report("embedded", embedded)
        assert embedded["p_at_1"] > 3 * data.most_frequent_precision()
        network = self.own_network()
        cluster = self.start_cluster("--data-dir", self.directory / "rows",
                                     shards=training.SHARDS)
        before = network.loopback_bytes() if network else 0
        results = training.train_on_cluster(self, cluster, data, settings, self.SECONDS)
        for result in results:
            self.report("trainer", result)
        if network:
            training.assert_bytes_counted(results, network.loopback_bytes() - before)
        for result in results:
            assert result["p_at_1"] == pytest.approx(embedded["p_at_1"],
                                                     abs=self.PRECISION_TOLERANCE)
        assert_ended(cluster.process.stop(), 0)

    def own_network(self) -> Any:
        """A network whose bytes can be counted, or None: precision is compared all the same."""
        try:
            return self.enter(NetworkNamespace())
        except OSError as error:
            print(f"SKIPPED bytes: needs a network namespace of its own, so root: {error}")
            return None

    def report(self, name: str, result: Mapping[str, Any]) -> None:
        print(f"{name}: P@1 {result['p_at_1']:.4f}, P@3 {result['p_at_3']:.4f}, "
              f"P@5 {result['p_at_5']:.4f}, {result['steps']} steps in {result['seconds']:.0f} s, "
              f"{result['samples_per_second']:.0f} samples/s", flush=True)
