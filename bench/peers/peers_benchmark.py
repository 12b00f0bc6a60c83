"""dslide without a model spec beside the peers, on the same files in the same run.

usage: peers_benchmark.py --bin-dir DIR [--data NAME|FOLDER]... [--tools NAMES] [--seeds N]
           [--page FOLDER] [--with-torch] [--no-install] [--limit SECONDS] [--quick] [-o json]

P@1/3/5 and PSP@1/3/5 of ranked test labels, counted by one function for all tools; processor time,
time and memory of training, size of the model, and the median time of predicting a single point on
one thread. The peers come from their published packages, in an environment in the cache folder; one
that is not there is skipped, and so is a data set. What exactly counts:
docs/contribute/benchmarking.md.
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/common"), str(ROOT / "bench/report")]

import data_sets  # noqa: E402
import measurement  # noqa: E402
import peer_tables  # noqa: E402
import programs  # noqa: E402
from compared_tools import TOOLS  # noqa: E402
from comparison import Comparison  # noqa: E402
from environment import locked  # noqa: E402
from measurement import say  # noqa: E402


def measure(options: argparse.Namespace) -> dict[str, object]:
    with programs.Programs(options.bin_dir) as started:
        machine = started.run_json("dslide-bench", "machine", within=20)
        foreign = measurement.ForeignLoad()
        comparison = Comparison(options, started)
        sets = dict(comparison.sets())
    return (
        {
            "sets": sets,
            "skipped": comparison.skipped,
            "seeds": options.seeds,
            "titles": {tool.key: tool.title for tool in TOOLS if tool.key in options.tools},
            "settings": {tool.key: tool.settings for tool in TOOLS if tool.key in options.tools},
            "counted": {tool.key: tool.counted for tool in TOOLS if tool.key in options.tools},
            "versions": locked("peers") | (locked("torch") if options.with_torch else {}),
            "quick": options.quick,
        }
        | machine
        | {"foreign_load": foreign.processors()}
    )


def write_page(result: dict[str, object], folder: pathlib.Path) -> None:
    try:
        import plots  # needs matplotlib, which the figures do not
    except ImportError as error:
        say(f"skipped: the page: {error}; install python3-matplotlib")
        return
    folder.mkdir(parents=True, exist_ok=True)
    plots.accuracy_against_cost(folder / "peers.svg", peer_tables.panels(result))
    (folder / "peers.md").write_text(peer_tables.page(result, "peers.svg"), encoding="utf-8")
    say(f"wrote {folder / 'peers.md'}")


def tool_keys(text: str) -> list[str]:
    keys = [tool.key for tool in TOOLS]
    for key in text.split(","):
        if key not in keys:
            raise argparse.ArgumentTypeError(f"no tool '{key}'; there are: {', '.join(keys)}")
    return text.split(",")


def data_set(text: str) -> str:
    if text not in data_sets.NAMES and not pathlib.Path(text).is_dir():
        raise argparse.ArgumentTypeError(
            f"'{text}' is no folder and no data set; there are: {', '.join(data_sets.NAMES)}"
        )
    return text


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 on")
    return int(text)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument(
        "--data",
        action="append",
        type=data_set,
        metavar="NAME|FOLDER",
        help=f"{', '.join(data_sets.NAMES)}, or a folder with train.txt and test.txt; "
        "may be repeated; default: all that are there",
    )
    parser.add_argument(
        "--tools",
        type=tool_keys,
        default=",".join(tool.key for tool in TOOLS),
        help="default: %(default)s",
    )
    parser.add_argument("--seeds", type=positive, default=3)
    parser.add_argument(
        "--page", type=pathlib.Path, metavar="FOLDER", help="write peers.md with its plot there"
    )
    parser.add_argument(
        "--with-torch", action="store_true", help="install PyTorch, 6 GB, for the dense net"
    )
    parser.add_argument("--no-install", action="store_true", help="only peers that are installed")
    parser.add_argument(
        "--limit",
        type=positive,
        default=1800,
        help="seconds of one training or prediction; what takes longer is left out",
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args(arguments)
    if options.quick:
        options.seeds, options.no_install = 1, True
    options.data = options.data or (data_sets.QUICK_NAMES if options.quick else data_sets.NAMES)
    return options


def main() -> int:
    options = parse(sys.argv[1:])
    result = measure(options)
    if not result["sets"]:
        say("skipped: none of the data sets is there")
        return programs.SKIPPED
    if options.page:
        write_page(result, options.page)
    measurement.report(
        result, options.output == "json", [peer_tables.peers(result), measurement.footer(result)]
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
