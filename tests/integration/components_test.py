"""Memory, trees and linear rows over processes: shards are killed while rows are solved, and the
result is the undisturbed one, to the bit.

usage: components_test.py --bin-dir DIR [unittest arguments]

DSLIDE_TEST_SEED sets the seed of the moments (printed by every test).
"""

import json
import time

import failures_test
import processes
import shard_crash_test

GROUPS = 50


class ComponentsTest(shard_crash_test.ShardTrainingTest):
    def setUp(self):
        super().setUp()
        self.data = self.directory / "wide.txt"
        self.test_data = self.directory / "test.txt"
        # Few enough labels that a network learns beside the components.
        shape = ["--features", 2000, "--labels", 300]
        self.make(self.data, "--points", 3000, *shape)
        self.make(self.test_data, "--points", 200, "--first-point", 3000, *shape)

    def make(self, path, *arguments):
        self.assert_ended(self.run_dslide("data", "gen", "--output", path, *arguments),
                          failures_test.OK)

    def train(self, *arguments):
        return self.start("dslide", "train", "-o", "json", "--cluster", self.coordinator.address,
                          "--data", self.data, "--eval", self.test_data, "--seed", 5,
                          "--model-dir", self.directory / "model", "--overwrite", *arguments)

    def spec(self, without=(), training=None):
        """What the command chooses for the data, but for these roles and training settings."""
        path = self.directory / "spec.json"
        self.assert_ended(
            self.run_dslide("train", "--data", self.data, "--seed", 5, "--spec-out", path),
            failures_test.OK)
        spec = json.loads(path.read_text())
        spec["tables"] = [table for table in spec["tables"] if table["role"] not in without]
        spec["training"].update(training or {})
        path.write_text(json.dumps(spec))
        return path

    def finish(self, trainer):
        finished = trainer.finish()
        self.assert_ended(finished, failures_test.OK)
        result = finished.json()
        self.assertEqual(result["points"], 3000)
        return {name: result[name] for name in ("p_at_1", "p_at_5", "components", "linear_entries")}

    def predictions(self):
        asked = self.run_dslide(
            "predict", "--model-dir", self.directory / "model", "--cluster",
            self.coordinator.address, "--data", self.test_data, "-o", "json")
        self.assert_ended(asked, failures_test.OK)
        return [json.loads(line) for line in asked.stdout.splitlines()]

    def test_killed_shards_lose_nothing(self):
        self.start_parts_with("--durability", "log")
        expected = self.finish(self.train())
        undisturbed = self.restarted_digests()
        answers = self.predictions()
        self.stop_parts()
        self.keep_aside("undisturbed")

        self.start_parts_with("--durability", "log")
        trainer = self.train()
        # Every phase of the training is hit once: points, network, trees, rows, fusion.
        for phase in ("sending", "epoch 3:", "building", "rows of tree 2", "fitting"):
            trainer.wait_for_stderr(phase)
            shard = self.random.choice(self.shards)
            shard.kill()
            time.sleep(self.random.random() / 4)
            shard.start()
        self.assertEqual(self.finish(trainer), expected)
        self.assertEqual(self.restarted_digests(), undisturbed)
        self.assertEqual(self.predictions(), answers)

    def test_trainers_share_a_job(self):
        # Four leases an epoch, so that there is something to share.
        spec = self.spec(training={"chunk_samples": 768})
        self.start_parts_with("--durability", "log")
        first = self.train("--job", "shared", "--model", spec)
        first.wait_for_stderr("sending")
        second = self.start("dslide", "train", "-o", "json", "--cluster", self.coordinator.address,
                            "--data", self.data, "--eval", self.test_data, "--seed", 5, "--job",
                            "shared", "--model", spec)
        results = [trainer.finish() for trainer in (first, second)]
        for finished in results:
            self.assert_ended(finished, failures_test.OK)
        said = [finished.stderr for finished in results]
        # Points are sent once and rows are solved once, by whoever was asked to.
        for phase in ("sending 2850 points", "building 4 label trees", "fitting the fusion"):
            self.assertEqual(sum(phase in text for text in said), 1, said)
        # Both have trained, and both see the complete model.
        results = [finished.json() for finished in results]
        self.assertTrue(all(result["steps"] > 0 for result in results), results)
        self.assertEqual(results[0]["p_at_1"], results[1]["p_at_1"])

    def test_any_number_of_shards_gives_the_same_predictions(self):
        results = []
        # A network adds its parts up shard by shard, which changes the last bits.
        spec = self.spec(without=("embedding", "head"))
        for shards in (1, 3):
            name = f"model-{shards}"
            trained = self.run_dslide(
                "train", "-o", "json", "--data", self.data, "--eval", self.test_data, "--shards",
                shards, "--threads", shards, "--model", spec, "--model-dir", self.directory / name)
            self.assert_ended(trained, failures_test.OK)
            result = trained.json()
            results.append([result["components"], result["p_at_1"]])
            asked = self.run_dslide("predict", "--model-dir", self.directory / name, "--data",
                                    self.test_data, "-o", "json", "-k", 20)
            self.assert_ended(asked, failures_test.OK)
            results[-1].append(asked.stdout)
        self.assertEqual(results[0], results[1])

    def test_groups_are_held_out_together(self):
        groups = self.directory / "groups.txt"
        groups.write_text("".join(f"{point % GROUPS}\n" for point in range(3000)))
        spec = self.directory / "spec.json"
        trained = self.run_dslide("train", "-o", "json", "--data", self.data, "--validation-group",
                                  groups, "--spec-out", spec)
        self.assert_ended(trained, failures_test.OK)
        # Of 150 points that a twentieth allows, two groups of sixty.
        self.assertEqual(trained.json()["held_out_points"], 120)
        again = self.run_dslide("train", "-o", "json", "--data", self.data, "--validation-group",
                                groups, "--model", spec)
        self.assertEqual(again.json()["components"], trained.json()["components"])
        groups.write_text("0\n")
        self.assert_ended(
            self.run_dslide("train", "--data", self.data, "--validation-group", groups),
            failures_test.USAGE, r"has 1 lines, the data 3000 points")


if __name__ == "__main__":
    processes.main()
