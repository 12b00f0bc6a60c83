"""Gather and scatter between one client and one shard, also with a congestion control for loopback.

usage: rpc_benchmark.py --bin-dir DIR [--quick] [-o json] [-- flags of dslide-bench rpc]

BBR measures how fast a path is and paces what it sends; on a loopback interface that is only work,
for raw TCP as for gRPC. Where it is the machine's default, everything is measured twice: as the
machine is set (`as_set` of the result), and with reno in a network namespace of its own, which are
the figures of the result itself. The latter needs root; without, there are only the former.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import measurement  # noqa: E402
import programs  # noqa: E402
from measurement import say  # noqa: E402

PACING = "bbr"
PLAIN = "reno"  # every kernel has it
# What the two have beside each other.
COMPARED = ("congestion_control", "in_flight", "gather_1k_p50_ms", "gather_10k_gbps",
            "gather_100k_gbps", "scatter_10k_gbps", "scatter_100k_gbps", "raw_tcp_gbps",
            "cpu_s_per_gb", "stream_cpu_s_per_gb", "echo_cpu_s_per_gb", "rows_copied_cpu_s_per_gb",
            "rows_added_cpu_s_per_gb", "cpu_ratio_to_echo", "gather_cpu_ratio", "scatter_cpu_ratio",
            "gather_cpu_ratio_with_rows", "scatter_cpu_ratio_with_rows")
ISOLATED = ("unshare", "--net", "--", "sh", "-ec",
            "ip link set lo up\n"
            f"echo {PLAIN} >/proc/sys/net/ipv4/tcp_congestion_control\n"
            'exec "$@"', "sh")
QUICK = ("--rows-per-request", 128, "--rows-per-request", 1000, "--table-rows", 10_000,
         "--seconds", 0.02, "--min-rounds", 1, "--max-rounds", 1)
WITHIN_SECONDS = 900


def measure(options, wrapper=()):
    with programs.Programs(options.bin_dir) as started:
        return started.run_json("dslide-bench", "rpc", "-o", "json", *options.flags,
                                within=WITHIN_SECONDS, wrapper=wrapper)


def why_not_isolated():
    """What keeps this process from making a network namespace with another setting, or None."""
    for tool in ("unshare", "ip"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    probe = subprocess.run([*ISOLATED, "true"], capture_output=True, timeout=20, check=False)
    return None if probe.returncode == 0 else "this user may not make network namespaces"


def lines(result):
    def line(figures):
        return (f"{figures['congestion_control']:>8}: gather {figures['gather_10k_gbps']:.2f} and "
                f"{figures['gather_100k_gbps']:.2f} GB/s at 10,000 and 100,000 rows, scatter "
                f"{figures['scatter_10k_gbps']:.2f} and {figures['scatter_100k_gbps']:.2f}, raw TCP "
                f"{figures['raw_tcp_gbps']:.2f}; {figures['gather_1k_p50_ms']:.3f} ms for 1,000 rows "
                f"(those of 10,000 rows and more {figures['in_flight']} at a time)")
    if result["as_set"] is not None:
        yield line(result["as_set"])
    yield line(result)
    yield measurement.footer(result)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="tiny shapes: does it run at all?")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options, options.flags = parser.parse_known_args()
    if options.quick:
        options.flags = [*QUICK, *options.flags]
    return options


def main():
    options = parse()
    say("As this machine's TCP is set")
    result = measure(options)
    as_set = {name: result.get(name) for name in COMPARED}
    result["as_set"] = None
    if as_set["congestion_control"] == PACING:
        why_not = why_not_isolated()
        if why_not is None:
            say(f"With {PLAIN}, in a network namespace of its own")
            result = measure(options, ISOLATED) | {"as_set": as_set}
        else:
            say(f"  not measured with {PLAIN}: {why_not}")
    measurement.report(result, options.output == "json", lines(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
