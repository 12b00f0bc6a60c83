"""Each benchmark runs on tiny shapes and reports what it promises. Speed is not looked at.

usage: smoke_test.py --bin-dir DIR [unittest arguments]

A benchmark that this machine cannot do (no root, no BLAS, not built) is skipped and says why.
"""

import json
import os
import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "tests/integration"))

import processes  # noqa: E402

SHAPE = ["--features", 500, "--labels", 1500, "--points", 600, "--eval-points", 100]
ORIGIN = {"commit", "cpu", "processors", "foreign_load", "date"}
# What `dslide train -o json` reports.
TRAINING = {"samples_per_second", "steps", "epochs", "seconds", "loss", "p_at_1", "p_at_3", "p_at_5",
            "active_rows_per_sample", "distinct_rows_per_batch", "bytes_sent", "bytes_received",
            "dense_equivalent_bytes", "peak_rss_bytes", "seed"}


class SmokeTest(processes.ProcessTest):
    def run_program(self, command):
        """The JSON result of a benchmark; skips the test when it says that it cannot run here."""
        with subprocess.Popen(
                list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=os.environ | {"DSLIDE_BENCH_DATA_DIR": str(self.directory / "data")}) as done:
            self.pid = done.pid
            try:
                stdout, stderr = done.communicate(timeout=processes.PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                # So that it can clean up.
                done.terminate()
                raise
        if done.returncode == processes.SKIPPED:
            self.skipTest(stderr.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, stderr)
        return json.loads(stdout.splitlines()[-1]), stderr

    def run_bench(self, *arguments):
        return self.run_program([processes.bin_dir() / "dslide-bench", *arguments, "-o", "json",
                                 "--data-dir", self.directory / "data"])

    def run_script(self, name, *arguments):
        return self.run_program([sys.executable, _ROOT / f"bench/{name}/{name}_benchmark.py",
                                 "--bin-dir", processes.bin_dir(), "--quick", "-o", "json",
                                 *arguments])

    def assert_positive(self, result, *fields):
        for field in fields:
            self.assertGreater(result[field], 0, field)

    def test_neighbours(self):
        result, _ = self.run_bench("neighbours", *SHAPE, "--sizes", "200,600", "--queries", 10,
                                   "--rounds", 1)
        self.assertLessEqual(ORIGIN, result.keys())
        for sizes in result["sets"].values():
            self.assertEqual([size["points"] for size in sizes], [200, 600])
            for size in sizes:
                self.assert_positive(size["scan"], "us", "bytes")
                self.assertEqual(size["exact"]["differing"], 0)
                self.assertEqual(size["exact"]["recall"], 1)
                self.assertGreater(size["impact"]["recall"], size["hashed"]["recall"] / 2)

    def test_dense(self):
        result, _ = self.run_bench("dense", *SHAPE, "--steps", 2, "--batch", 64)
        self.assertLessEqual(ORIGIN, result.keys())
        self.assert_positive(result, "samples_per_second", "step_seconds", "gradient_bytes",
                             "first_loss")
        self.assertLessEqual(result["gradient_bytes"], result["whole_gradient_bytes"])
        self.assertEqual(result["steps"], 2)

    def test_train(self):
        result, stderr = self.run_bench("train", *SHAPE, "--epochs", 1, "--max-repeats", 2,
                                        "--max-spread", 0)
        self.assertLessEqual(ORIGIN | TRAINING | {"stages", "repeats", "spread"}, result.keys())
        self.assert_positive(result, "samples_per_second", "steps")
        self.assertEqual(result["repeats"], 2)
        self.assertEqual([result["labels"], result["points"]], [1500, 600])
        if result["dense_samples_per_second"] is None:
            self.assertIn("skipped: ", stderr)
        else:
            self.assertAlmostEqual(
                result["speedup_vs_dense"],
                result["samples_per_second"] / result["dense_samples_per_second"])

    def test_train_refuses_a_file_that_is_absent(self):
        done = self.start("dslide-bench", "train", "--data", "/nonexistent/data.txt").finish(20)
        self.assert_ended(done, 1, "/nonexistent/data.txt")
        self.assertEqual(done.stdout, "")

    def test_growth(self):
        result, _ = self.run_script("growth", "--curves", "rows,trainers", "--steps", 4)
        self.assertLessEqual(ORIGIN, result.keys())
        for curve in ("rows", "trainers"):
            points = result["curves"][curve]["points"]
            self.assertEqual(len(points), 2, result["curves"][curve]["left_out"])
            for point in points:
                self.assert_positive(point, "x", "samples_per_second", "rss_bytes")

    def test_cluster(self):
        result, stderr = self.run_script("cluster", "--steps", 3)
        self.assertLessEqual(ORIGIN, result.keys())
        self.assert_positive(result, "samples_per_second_1gbit", "samples_per_second_100mbit",
                             "bytes_per_sample_and_shard")
        if result["dense"] is None:
            self.assertIn("skipped: ", stderr)
        else:
            self.assert_positive(result, "dense_samples_per_second_1gbit", "speedup_vs_dense_1gbit",
                                 "saved_ratio")
            # Half of it is the rate of 1 Gbit/s; the rest may be the bucket's first burst.
            dense = result["dense"]
            self.assertLess(8 * dense["all_reduce_bytes"] / dense["all_reduce_seconds"], 2e9)
        if result["race"] is None:
            self.assertIn("skipped: PyTorch", stderr)
        else:
            for rate in ("1gbit", "100mbit"):
                self.assert_positive(result["data_parallel"][rate], "samples_per_second",
                                     "bytes_per_sample_and_worker")
            self.assertEqual({one["rate"] for one in result["race"]["sides"]}, {"1gbit", "100mbit"})
            for one in result["race"]["sides"]:
                self.assert_positive(one, "seconds", "samples_per_second", "bytes_per_sample")
        left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
        self.assertNotIn(f"dslide{self.pid}-", left.stdout)

    def test_python(self):
        result, _ = self.run_script("python")
        self.assertLessEqual(ORIGIN, result.keys())
        for figures in result["rows"]:
            self.assert_positive(figures, "gather_gbps", "stubs_gather_gbps", "scatter_gbps")
        for trainer in ("cpp", "python"):
            self.assert_positive(result["training"][trainer], "samples_per_second", "loss")

    def test_peers(self):
        result, stderr = self.run_script("peers", "--page", self.directory / "page")
        self.assertLessEqual(ORIGIN, result.keys())
        measured = result["sets"]["quick"]
        for tool, title in result["titles"].items():
            if tool in measured["tools"]:
                self.assert_positive(measured["tools"][tool], "cpu_seconds", "wall_seconds",
                                     "peak_rss_bytes", "model_bytes", "predict_p50_ms")
            else:
                self.assertRegex(stderr, f"(skipped|left out): {title}")
        self.assertIn("dslide", measured["tools"])
        if (self.directory / "page/peers.md").is_file():
            self.assertIn("<svg", (self.directory / "page/peers.svg").read_text())
        else:
            self.assertIn("skipped: the page", stderr)

    def test_paper(self):
        result, _ = self.run_script("paper", "--page", self.directory / "page")
        self.assertLessEqual(ORIGIN, result.keys())
        self.assertEqual(list(result["sets"]),
                         ["Delicious-200K", "Amazon-670K", "WikiLSHTC-325K", "Text8"])
        for measured in result["sets"].values():
            for key in ("papers", "default"):
                self.assert_positive(measured["runs"][key], "samples_per_second", "wall_seconds",
                                     "cpu_seconds", "peak_rss_bytes")
            # All points of a tiny set are trained in no time, but a build may lack BLAS.
            dense = measured["runs"]["dense"]
            self.assertTrue("left_out" in dense or dense["active_rows_per_sample"] == 1500, dense)
        self.assertIn("| Amazon-670K", (self.directory / "page/paper.md").read_text())

    def test_rpc(self):
        result, _ = self.run_script("rpc")
        self.assertLessEqual(ORIGIN | {"as_set", "congestion_control"}, result.keys())
        self.assert_positive(result, "gather_1k_p50_ms", "cpu_s_per_gb", "raw_tcp_gbps",
                             "stream_cpu_s_per_gb", "echo_cpu_s_per_gb", "rows_copied_cpu_s_per_gb",
                             "rows_added_cpu_s_per_gb", "scatter_cpu_ratio_with_rows")
        for name, (low, high) in result["intervals"].items():
            self.assertTrue(low <= result[name] <= high, name)
        self.assertEqual(result["rounds"], 1)
        if result["as_set"] is not None:
            as_set = result["as_set"]
            self.assertNotEqual(as_set["congestion_control"], result["congestion_control"])
            # The table is left out, not what a figure is made of.
            self.assertEqual({name for name in result["intervals"] if result[name] > 0},
                             {name for name in as_set["intervals"] if as_set[name] > 0})

    def test_capacity(self):
        result, _ = self.run_script("capacity", "--steps", 3)
        self.assertLessEqual(ORIGIN, result.keys())
        self.assertEqual(set(result["cases"]), {"billion", "four-billion"})
        for case in result["cases"].values():
            self.assert_positive(case, "parameters", "samples_per_second", "shard_bytes",
                                 "planned_shard_bytes", "first_loss", "loss")

    def test_durability(self):
        result, _ = self.run_script("durability")
        self.assertLessEqual(ORIGIN, result.keys())
        self.assertEqual(list(result["modes"]), ["checkpoint", "log-periodic", "log"])
        for mode in result["modes"].values():
            self.assert_positive(mode, "samples_per_second", "relative")
        self.assert_positive(result["checkpoints"], "taken", "bytes", "written_bytes", "seconds",
                             "default_interval_seconds")
        cuts = result["cuts"]
        self.assert_positive(cuts, "shards", "taken", "bytes", "frozen_max_seconds")
        # Two cuts of a tiny model may meet nobody who has to wait.
        self.assertGreaterEqual(cuts["stall_max_seconds"], 0)
        self.assertLessEqual(cuts["stall_max_seconds"], cuts["frozen_max_seconds"])
        for kind in ("full", "incremental"):
            self.assert_positive(result["increments"][kind], "seconds_per_gib", "gb_per_second")
        self.assert_positive(result["restart"], "image_bytes", "image_seconds_per_gib",
                             "replayed_records")

    def test_micro(self):
        result, _ = self.run_script("micro")
        self.assertLessEqual(ORIGIN, result.keys())
        self.assertGreater(len(result["kernels"]), 20)
        for kernel in result["kernels"]:
            self.assert_positive(kernel, "ns", "gbps", "share_of_limit")


if __name__ == "__main__":
    processes.main()
