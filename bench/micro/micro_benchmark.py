"""Every kernel beside its slow reference and beside the limits of the machine, from one run.

usage: micro_benchmark.py --bin-dir DIR [--quick] [-o json]

Runs kernels_benchmark several times over with its benchmarks interleaved, so that a busy moment
does not hit one of them alone, and takes medians.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import measurement  # noqa: E402
import programs  # noqa: E402

F32, BF16 = 4, 2
DIM = 128
ROW = F32 * DIM


def row_logits(samples):
    return ROW * (1 + samples)


def row_gradients(samples):
    """Weights, hidden vectors and both gradients, the latter read and written."""
    return ROW * (1 + samples) + 2 * ROW * (samples + 1)


# Kernel, bytes that one call reads and writes, reference, how many reference calls make one call of
# the kernel, limit.
KERNELS = [
    ("DotBenchmark/64", 2 * F32 * 64, None, 1, "LimitRead/512"),
    ("DotBenchmark/128", 2 * ROW, "DotReferenceBenchmark/128", 1, "LimitRead/1024"),
    ("DotBenchmark/1024", 2 * F32 * 1024, None, 1, "LimitRead/16384"),
    ("SumOfSquaresBenchmark", ROW, "SumOfSquaresReferenceBenchmark", 1, "LimitRead/512"),
    ("AxpyBenchmark", 3 * ROW, "AxpyReferenceBenchmark", 1, "LimitCopy/512"),
    ("AddToBenchmark", 3 * ROW, "AddToReferenceBenchmark", 1, "LimitCopy/512"),
    ("AddWithinBenchmark", 3 * ROW, "AddWithinReferenceBenchmark", 1, "LimitCopy/512"),
    ("AllWithinBenchmark", ROW, "AllWithinReferenceBenchmark", 1, "LimitRead/512"),
    ("ToBFloat16Benchmark", DIM * (F32 + BF16), "ToBFloat16ReferenceBenchmark", 1,
     "LimitCopy/512"),
    ("FromBFloat16Benchmark", DIM * (F32 + BF16), "FromBFloat16ReferenceBenchmark", 1,
     "LimitCopy/512"),
    # The benchmark copies its input first.
    ("ExpShiftedBenchmark/1000", 4 * F32 * 1000, "ExpReferenceBenchmark/1000", 1,
     "LimitCopy/4096"),
    # Ids and their counts; a tenth of the ids is written.
    ("SplitByCountBenchmark", 6000 * (4 + 2) + 600 * 4, "SplitByCountReferenceBenchmark", 1,
     "LimitRead/16384"),
    # Rows with their sketches, of which few are kept; counts alone.
    ("ReadNearBenchmark", 6000 * 8, "ReadNearReferenceBenchmark", 1,
     "LimitRead/16384"),
    ("CountAtLeastBenchmark", 6000, "CountAtLeastReferenceBenchmark", 1,
     "LimitRead/16384"),
    # Two words of codes a row.
    ("CountEqualCodesBenchmark", 4096 * (2 * 8 + 2), "CountEqualCodesReferenceBenchmark", 1,
     "LimitRead/16384"),
    ("RowLogitsBenchmark/1", row_logits(1), None, 1, "LimitRead/1024"),
    ("RowLogitsBenchmark/2", row_logits(2), None, 1, "LimitRead/1024"),
    ("RowLogitsBenchmark/4", row_logits(4), None, 1, "LimitRead/16384"),
    ("RowLogitsBenchmark/7", row_logits(7), None, 1, "LimitRead/16384"),
    ("RowLogitsBenchmark/32", row_logits(32), "RowLogitsReferenceBenchmark/32", 1,
     "LimitRead/16384"),
    ("RowLogitsBenchmark/256", row_logits(256), None, 1, "LimitRead/131072"),
    ("RowLogitsTableBenchmark", ROW, None, 1, "LimitGather/512/2000000"),
    ("RowGradientsBenchmark/1", row_gradients(1), None, 1, "LimitCopy/1024"),
    ("RowGradientsBenchmark/2", row_gradients(2), None, 1, "LimitCopy/2048"),
    ("RowGradientsBenchmark/4", row_gradients(4), None, 1, "LimitCopy/4096"),
    ("RowGradientsBenchmark/7", row_gradients(7), None, 1, "LimitCopy/4096"),
    ("RowGradientsBenchmark/32", row_gradients(32), None, 1, "LimitCopy/8192"),
    ("RowGradientsBenchmark/256", row_gradients(256), "RowGradientsReferenceBenchmark/256", 1,
     "LimitCopy/8192"),
    ("SignedHadamardLanesBenchmark/128", 2 * 16 * ROW, "HadamardReferenceBenchmark/128", 16,
     "LimitCopy/8192"),
    ("SignedHadamardLanesBenchmark/256", 4 * 16 * ROW, None, 1, "LimitCopy/8192"),
    # Weights, state, bias: read and written, and a gradient.
    ("OptimizerApplyBenchmark/64/0", 3 * ROW, "OptimizerReferenceBenchmark/0", 1,
     "LimitCopy/1024"),
    ("OptimizerApplyBenchmark/64/1", 5 * ROW, "OptimizerReferenceBenchmark/1", 1,
     "LimitCopy/1024"),
    ("OptimizerApplyBenchmark/64/2", 3 * ROW, "OptimizerReferenceBenchmark/2", 1,
     "LimitCopy/1024"),
    ("OptimizerApplyBenchmark/64/3", 7 * ROW, "OptimizerReferenceBenchmark/3", 1,
     "LimitCopy/2048"),
    ("OptimizerApplyBenchmark/200000/3", 2 * (3 * ROW + 64), "OptimizerReferenceBenchmark/3", 1,
     "LimitUpdate/1600/200000"),
]
# Shown beside those that kernels are compared with.
OTHER_LIMITS = ["LimitRead/1073741824", "LimitCopy/536870912", "LimitUpdate/1600/640000"]
RUN_SECONDS = 900


def medians(report):
    """{name: (median ns, spread)} of a Google Benchmark report with repetitions."""
    times = {}
    for run in report["benchmarks"]:
        if run.get("run_type") == "iteration":
            scale = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[run["time_unit"]]
            times.setdefault(run["run_name"], []).append(run["cpu_time"] * scale)
    return {name: (measurement.median(values), measurement.spread(values))
            for name, values in times.items()}


def limit_bytes(name):
    """Bytes that one call of a limit reads and writes."""
    kind, size = name.split("/")[:2]
    return int(size) * (2 if kind in ("LimitCopy", "LimitUpdate") else 1)


def summarize(times):
    """The result's "limits" and "kernels"; raises KeyError for a name that was not measured."""
    wanted = list(dict.fromkeys([kernel[4] for kernel in KERNELS] + OTHER_LIMITS))
    gbps = {name: limit_bytes(name) / times[name][0] for name in wanted}
    kernels = []
    for name, moved, reference, calls, limit in KERNELS:
        ns, spread = times[name]
        kernels.append({
            "name": name.replace("Benchmark", ""),
            "ns": ns,
            "spread": spread,
            "gbps": moved / ns,
            "times_reference": times[reference][0] * calls / ns if reference else None,
            "limit": limit,
            "share_of_limit": moved / ns / gbps[limit],
        })
    return {"limits": [{"name": name, "gbps": value} for name, value in gbps.items()],
            "kernels": kernels}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="short and imprecise")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    if not (options.bin_dir / "kernels_benchmark").exists():
        print(f"skipped: {options.bin_dir}/kernels_benchmark is not built; it needs "
              "libbenchmark-dev and -DDSLIDE_BUILD_BENCH=ON", file=sys.stderr)
        return programs.SKIPPED
    repeats = 1 if options.quick else options.repeats
    foreign = measurement.ForeignLoad()
    with programs.Programs(options.bin_dir) as started:
        machine = started.run_json("dslide-bench", "machine", within=20)
        process = started.start(
            "kernels_benchmark", "--benchmark_format=json",
            f"--benchmark_min_time={0.001 if options.quick else 0.05}",
            f"--benchmark_repetitions={repeats}", "--benchmark_enable_random_interleaving=true")
        finished = process.finish(RUN_SECONDS)
        if finished.code != 0:
            raise RuntimeError(str(finished))
        process.kill()
    result = summarize(medians(json.loads(finished.stdout))) | {
        "repeats": repeats, "quick": options.quick}
    result["spread"] = measurement.median([kernel["spread"] for kernel in result["kernels"]])
    result |= machine | {"foreign_load": foreign.processors()}
    measurement.report(result, options.output == "json", [
        *(f"{kernel['name']:32} {kernel['ns']:10.1f} ns {kernel['gbps']:8.1f} GB/s "
          f"{100 * kernel['share_of_limit']:5.0f} % of {kernel['limit']}"
          for kernel in result["kernels"]), measurement.footer(result)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
