"""Gather and scatter between one client and one shard, also with a congestion control for loopback.

usage: rpc_benchmark.py --bin-dir DIR [--budget SECONDS] [--quick] [-o json] [flags of dslide-bench rpc]

BBR measures how fast a path is and paces what it sends; on a loopback interface that is only work,
for raw TCP as for gRPC. Where it is the machine's default, everything is measured twice: as the
machine is set (`as_set` of the result, figures without the table), and with reno in a network
namespace of its own, which is the result itself. The latter needs root; without, there is only the
former. Each takes the budget and some seconds of preparations.
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
CONGESTION_CONTROL = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")
PLAIN = "reno"  # every kernel has it
# What the two have beside each other.
COMPARED = ("congestion_control", "rounds", "intervals", "in_flight", "gather_1k_p50_ms",
            "gather_10k_gbps", "gather_100k_gbps", "scatter_10k_gbps", "scatter_100k_gbps", "raw_tcp_gbps",
            "cpu_s_per_gb", "stream_cpu_s_per_gb", "echo_cpu_s_per_gb", "rows_copied_cpu_s_per_gb",
            "rows_added_cpu_s_per_gb", "cpu_ratio_to_echo", "gather_cpu_ratio", "scatter_cpu_ratio",
            "gather_cpu_ratio_with_rows", "scatter_cpu_ratio_with_rows")
ISOLATED = ("unshare", "--net", "--", "sh", "-ec",
            "ip link set lo up\n"
            f"echo {PLAIN} >/proc/sys/net/ipv4/tcp_congestion_control\n"
            'exec "$@"', "sh")
QUICK = ("--rows-per-request", 128, "--rows-per-request", 1000, "--table-rows", 10_000,
         "--seconds", 0.02)
LEAST_ROUNDS = 6  # of which intervals can be of 95 %
QUICK_BUDGET = 0  # one round
PREPARATION_SECONDS = 180  # a few on a quiet machine


def measure(options, *flags, wrapper=()):
    with programs.Programs(options.bin_dir) as started:
        return started.run_json("dslide-bench", "rpc", "-o", "json", "--budget", options.budget,
                                *flags, *options.flags, wrapper=wrapper,
                                within=options.budget + PREPARATION_SECONDS)


def why_not_isolated():
    """What keeps this process from making a network namespace with another setting, or None."""
    for tool in ("unshare", "ip"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    probe = subprocess.run([*ISOLATED, "true"], capture_output=True, timeout=20, check=False)
    return None if probe.returncode == 0 else "this user may not make network namespaces"


def paces():
    """Whether new sockets of this machine pace what they send."""
    try:
        return CONGESTION_CONTROL.read_text(encoding="ascii").strip() == PACING
    except OSError:
        return False


def certainty(figures):
    """How far off the medians may be."""
    if figures["rounds"] < LEAST_ROUNDS:
        return f"medians of {figures['rounds']} rounds: too few to say how sure they are"
    widest = max(max(high - figures[name], figures[name] - low) / figures[name]
                 for name, (low, high) in figures["intervals"].items() if figures[name])
    return (f"medians of {figures['rounds']} rounds, with 95 % certainty each within "
            f"{100 * widest:.1f} %")


def lines(result):
    def line(figures):
        return (f"{figures['congestion_control']:>8}: gather {figures['gather_10k_gbps']:.2f} and "
                f"{figures['gather_100k_gbps']:.2f} GB/s at 10,000 and 100,000 rows, scatter "
                f"{figures['scatter_10k_gbps']:.2f} and {figures['scatter_100k_gbps']:.2f}, raw TCP "
                f"{figures['raw_tcp_gbps']:.2f}; {figures['gather_1k_p50_ms']:.3f} ms for 1,000 rows "
                f"(those of 10,000 rows and more {figures['in_flight']} at a time)")
    for figures in (result["as_set"], result):
        if figures is not None:
            yield line(figures)
            yield f"{'':>8}  {certainty(figures)}"
    yield measurement.footer(result)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--budget", type=float, default=120, help="seconds of measuring with each congestion control")
    parser.add_argument("--quick", action="store_true", help="tiny shapes: does it run at all?")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options, options.flags = parser.parse_known_args()
    if options.quick:
        options.flags = [*QUICK, *options.flags]
        options.budget = QUICK_BUDGET
    return options


def main():
    options = parse()
    as_set = None
    say("As this machine's TCP is set")
    why_not = why_not_isolated() if paces() else None
    if paces() and why_not is None:
        figures = measure(options, "--figures-only")
        as_set = {name: figures[name] for name in COMPARED}
        say(f"With {PLAIN}, in a network namespace of its own")
        result = measure(options, wrapper=ISOLATED)
    else:
        result = measure(options)
    if why_not is not None:
        say(f"  not measured with {PLAIN}: {why_not}")
    result["as_set"] = as_set
    measurement.report(result, options.output == "json", lines(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
