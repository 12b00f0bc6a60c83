"""Each benchmark runs on tiny shapes and reports what it promises. Speed is not looked at.

A benchmark that this machine cannot do (no root, no BLAS, not built) is skipped and says why.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import processes
import pytest
from processes import Programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE = ("--features", 500, "--labels", 1500, "--points", 600, "--eval-points", 100)
ORIGIN = {"commit", "cpu", "processors", "foreign_load", "date"}
# What `dslide train -o json` reports.
TRAINING = {"samples_per_second", "steps", "epochs", "seconds", "loss", "p_at_1", "p_at_3",
            "p_at_5", "active_rows_per_sample", "distinct_rows_per_batch", "bytes_sent",
            "bytes_received", "dense_equivalent_bytes", "peak_rss_bytes", "seed"}
# Runs a benchmark by its name and arguments: its JSON result, what it said, and its process's id.
Run = Callable[..., tuple[dict[str, Any], str, int]]


def run_program(command: list[Any], data: pathlib.Path) -> tuple[dict[str, Any], str, int]:
    with subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"DSLIDE_BENCH_DATA_DIR": str(data)}) as done:
        try:
            stdout, stderr = done.communicate(timeout=processes.PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            # So that it can clean up.
            done.terminate()
            raise
    if done.returncode == processes.SKIPPED:
        pytest.skip(stderr.strip().splitlines()[-1])
    assert done.returncode == 0, stderr
    result: dict[str, Any] = json.loads(stdout.splitlines()[-1])
    assert result.keys() >= ORIGIN
    return result, stderr, done.pid


@pytest.fixture
def run_bench(bin_dir: pathlib.Path, tmp_path: pathlib.Path) -> Run:
    return lambda *arguments: run_program(
        [bin_dir / "dslide-bench", *arguments, "-o", "json", "--data-dir", tmp_path / "data"],
        tmp_path / "data")


@pytest.fixture
def run_script(bin_dir: pathlib.Path, tmp_path: pathlib.Path) -> Run:
    return lambda name, *arguments: run_program(
        [sys.executable, ROOT / f"bench/{name}/{name}_benchmark.py", "--bin-dir", bin_dir,
         "--quick", "-o", "json", *arguments], tmp_path / "data")


def assert_positive(result: dict[str, Any], *fields: str) -> None:
    assert [field for field in fields if not result[field] > 0] == [], result


def test_neighbours(run_bench: Run) -> None:
    result, _, _ = run_bench("neighbours", *SHAPE, "--sizes", "200,600", "--queries", 10,
                             "--rounds", 1)
    for sizes in result["sets"].values():
        assert [size["points"] for size in sizes] == [200, 600]
        for size in sizes:
            assert_positive(size["scan"], "us", "bytes")
            assert (size["exact"]["differing"], size["exact"]["recall"]) == (0, 1)
            assert size["impact"]["recall"] > size["hashed"]["recall"] / 2


def test_serve(run_script: Run) -> None:
    result, _, _ = run_script("serve")
    for name in ("exact", "hashed", "exact_batch", "hashed_batch"):
        assert_positive(result[name], "p50_ms", "p99_ms", "scored_rows")
    assert result["exact"]["exact"]
    assert result["exact"]["scored_rows"] == result["rows"] == 1500
    assert result["hashed"]["scored_rows"] < result["rows"]
    assert_positive(result, "recall_at_k", "memory_bytes_per_second")


def test_serve_without_a_spec(run_script: Run) -> None:
    result, _, _ = run_script("serve", "--no-spec")
    for name in ("neighbours", "neighbours_batch"):
        assert_positive(result[name], "p50_ms", "p99_ms", "scored_rows")
    assert (result["rows"], result["dim"]) == (1500, 0)


def test_dense(run_bench: Run) -> None:
    result, _, _ = run_bench("dense", *SHAPE, "--steps", 2, "--batch", 64)
    assert_positive(result, "samples_per_second", "step_seconds", "gradient_bytes", "first_loss")
    assert result["gradient_bytes"] <= result["whole_gradient_bytes"]
    assert result["steps"] == 2


def test_train(run_bench: Run) -> None:
    result, stderr, _ = run_bench("train", *SHAPE, "--epochs", 1, "--max-repeats", 2,
                                  "--max-spread", 0)
    assert result.keys() >= TRAINING | {"stages", "spread"}
    assert_positive(result, "samples_per_second", "steps")
    assert [result[name] for name in ("repeats", "labels", "points")] == [2, 1500, 600]
    if result["dense_samples_per_second"] is None:
        assert "skipped: " in stderr
    else:
        assert result["speedup_vs_dense"] == pytest.approx(
            result["samples_per_second"] / result["dense_samples_per_second"])


@pytest.mark.usefixtures("bin_dir")
def test_train_refuses_a_file_that_is_absent(programs: Programs) -> None:
    done = programs.start("dslide-bench", "train", "--data", "/nonexistent/data.txt").finish()
    processes.assert_ended(done, 1, "/nonexistent/data.txt")
    assert done.stdout == ""


def test_growth(run_script: Run) -> None:
    result, _, _ = run_script("growth", "--curves", "rows,trainers", "--steps", 4)
    for curve in ("rows", "trainers"):
        points = result["curves"][curve]["points"]
        assert len(points) == 2, result["curves"][curve]["left_out"]
        for point in points:
            assert_positive(point, "x", "samples_per_second", "rss_bytes")


def test_cluster(run_script: Run) -> None:
    result, stderr, pid = run_script("cluster", "--steps", 3)
    assert_positive(result, "samples_per_second_1gbit", "samples_per_second_100mbit",
                    "bytes_per_sample_and_shard")
    if result["dense"] is None:
        assert "skipped: " in stderr
    else:
        assert_positive(result, "dense_samples_per_second_1gbit", "speedup_vs_dense_1gbit",
                        "saved_ratio")
        # Half of it is the rate of 1 Gbit/s; the rest may be the bucket's first burst.
        dense = result["dense"]
        assert 8 * dense["all_reduce_bytes"] / dense["all_reduce_seconds"] < 2e9
    if result["race"] is None:
        assert "skipped: PyTorch" in stderr
    else:
        assert_positive(result["data_parallel"]["1gbit"], "samples_per_second",
                        "bytes_per_sample_and_worker")
        assert {one["rate"] for one in result["race"]["sides"]} == {"1gbit"}
        for one in result["race"]["sides"]:
            assert_positive(one, "seconds", "samples_per_second", "bytes_per_sample")
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert f"dslide{pid}-" not in left.stdout


def test_python(run_script: Run) -> None:
    result, _, _ = run_script("python")
    for figures in result["rows"]:
        assert_positive(figures, "gather_gbps", "stubs_gather_gbps", "scatter_gbps")
    for trainer in ("cpp", "python"):
        assert_positive(result["training"][trainer], "samples_per_second", "loss")


def test_torch(run_script: Run) -> None:
    result, _, _ = run_script("torch")
    for found in result["equal"]["optimizers"].values():
        assert max(found["largest_differences"].values()) < 1e-3
        assert found["exported_logits"] < 1e-6
        assert found["imported_top_10"] == 1
    for part in ("learn", "wide"):
        for side in result[part]["sides"].values():
            assert_positive(side, "samples_per_second", "cpu_seconds_per_thousand")
        assert_positive(result[part], "speedup", "cpu_speedup")
    assert result["wide"]["fastest_dense"] in result["wide"]["sides"]


def test_peers(run_script: Run, tmp_path: pathlib.Path) -> None:
    result, stderr, _ = run_script("peers", "--page", tmp_path / "page")
    measured = result["sets"]["quick"]["tools"]
    for tool, title in result["titles"].items():
        if tool in measured:
            assert_positive(measured[tool], "cpu_seconds", "wall_seconds", "peak_rss_bytes",
                            "model_bytes", "predict_p50_ms")
        else:
            assert re.search(f"(skipped|left out): {title}", stderr)
    assert "dslide" in measured
    if (tmp_path / "page/peers.md").is_file():
        assert "<svg" in (tmp_path / "page/peers.svg").read_text()
    else:
        assert "skipped: the page" in stderr


def test_paper(run_script: Run, tmp_path: pathlib.Path) -> None:
    result, _, _ = run_script("paper", "--page", tmp_path / "page")
    assert list(result["sets"]) == ["Delicious-200K", "Amazon-670K", "WikiLSHTC-325K", "Text8"]
    for measured in result["sets"].values():
        for key in ("papers", "default"):
            assert_positive(measured["runs"][key], "samples_per_second", "wall_seconds",
                            "cpu_seconds", "peak_rss_bytes")
        # All points of a tiny set are trained in no time, but a build may lack BLAS.
        dense = measured["runs"]["dense"]
        assert "left_out" in dense or dense["active_rows_per_sample"] == 1500, dense
    assert "| Amazon-670K" in (tmp_path / "page/paper.md").read_text()


def test_rpc(run_script: Run) -> None:
    result, _, _ = run_script("rpc")
    assert_positive(result, "gather_1k_p50_ms", "cpu_s_per_gb", "raw_tcp_gbps",
                    "stream_cpu_s_per_gb", "echo_cpu_s_per_gb", "rows_copied_cpu_s_per_gb",
                    "rows_added_cpu_s_per_gb", "scatter_cpu_ratio_with_rows")
    for name, (low, high) in result["intervals"].items():
        assert low <= result[name] <= high, name
    assert result["rounds"] == 1
    as_set = result["as_set"]
    if as_set is not None:
        assert as_set["congestion_control"] != result["congestion_control"]
        # The table is left out, not what a figure is made of.
        assert ({name for name in result["intervals"] if result[name] > 0}
                == {name for name in as_set["intervals"] if as_set[name] > 0})


def test_capacity(run_script: Run) -> None:
    result, _, _ = run_script("capacity", "--steps", 3)
    assert set(result["cases"]) == {"billion", "four-billion"}
    for case in result["cases"].values():
        assert_positive(case, "parameters", "samples_per_second", "shard_bytes",
                        "planned_shard_bytes", "first_loss", "loss")


def test_durability(run_script: Run) -> None:
    result, _, _ = run_script("durability")
    assert list(result["modes"]) == ["checkpoint", "log-periodic", "log"]
    for mode in result["modes"].values():
        assert_positive(mode, "samples_per_second", "relative")
    assert_positive(result["checkpoints"], "taken", "bytes", "written_bytes", "seconds",
                    "default_interval_seconds")
    cuts = result["cuts"]
    assert_positive(cuts, "shards", "taken", "bytes", "frozen_max_seconds")
    # Two cuts of a tiny model may meet nobody who has to wait.
    assert 0 <= cuts["stall_max_seconds"] <= cuts["frozen_max_seconds"]
    for kind in ("full", "incremental"):
        assert_positive(result["increments"][kind], "seconds_per_gib", "gb_per_second")
    assert_positive(result["restart"], "image_bytes", "image_seconds_per_gib", "replayed_records")


def test_micro(run_script: Run) -> None:
    result, _, _ = run_script("micro")
    assert len(result["kernels"]) > 20
    for kernel in result["kernels"]:
        assert_positive(kernel, "ns", "gbps", "share_of_limit")
