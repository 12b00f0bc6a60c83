"""The tables of the papers of SLIDE and D-SLIDE, on the data sets that they used.

usage: paper_benchmark.py --bin-dir DIR --data DIR [--sets NAMES] [--points N] [--test-points N]
           [--epochs N] [--limit SECONDS] [--page FOLDER] [--quick] [-o json]

Of each set that is in DIR, under the names of the Extreme Classification Repository: training with
the papers' shape and hash tables, without a spec, and with all rows active where that fits the
time. Sets that are not there are named, with where to get them. What exactly is done:
docs/contribute/benchmarking.md.
"""

import argparse
import pathlib
import shutil
import sys

_BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_BENCH / name) for name in ("common", "peers", "report")]

import measurement  # noqa: E402
import paper_tables  # noqa: E402
import programs  # noqa: E402
import published_sets  # noqa: E402
import trainings  # noqa: E402
from measurement import say  # noqa: E402
from published_sets import Found, Published  # noqa: E402

# Of a point of a set in the quick run, instead of its own shape.
_QUICK_SHAPE = ["--features", 500, "--labels", 1500, "--points", 600, "--eval-points", 100]


def generate(folder: pathlib.Path, started: programs.Programs) -> None:
    """Tiny files under the published names."""
    made = started.data(_QUICK_SHAPE)
    for published in published_sets.SETS:
        below = folder / published.folders[0]
        below.mkdir()
        name = published.files[0]
        if "{part}" in name:
            for part, path in (("train", made["train"]), ("test", made["eval"])):
                shutil.copyfile(path, below / name.format(part=part))
        else:
            words = " ".join(f"w{at * at % 97}" for at in range(3000))
            (below / name).write_text(words, encoding="ascii")


def measure_set(found: Found, started: programs.Programs, options: argparse.Namespace) -> dict:
    """Raises ValueError where the files are not of the format."""
    name, settings = found.published.name, found.published.settings
    folder = started.directory / name
    folder.mkdir()
    limits = trainings.Limits(options.points, options.test_points, options.epochs, options.limit)
    prepared = trainings.Prepared.of(found, folder, limits)
    say(f"{name}: {prepared.points:,} points, {prepared.labels:,} labels, from {found.train}")
    runs = {}
    for key in trainings.TITLES:
        (folder / key).mkdir()
        runs[key] = trainings.run(key, name, settings, prepared, folder / key)
    shutil.rmtree(folder)
    return {
        "points": prepared.points,
        "features": prepared.features,
        "labels": prepared.labels,
        "hidden": settings.hidden,
        "batch": settings.batch,
        "family": settings.family,
        "codes_per_table": settings.codes_per_table,
        "num_tables": settings.num_tables,
        "num_tables_here": min(settings.num_tables, trainings.MOST_TABLES),
        "paper": settings.paper,
        "runs": runs,
    }


def measure(options: argparse.Namespace) -> dict:
    with programs.Programs(options.bin_dir) as started:
        machine = started.run_json("dslide-bench", "machine", within=20)
        foreign = measurement.ForeignLoad()
        folder = options.data
        if folder is None:
            folder = started.directory / "generated"
            folder.mkdir()
            generate(folder, started)
        sets, absent = {}, {}
        for published in options.sets:
            found = published_sets.find(published, folder)
            if found is None:
                absent[published.name] = published_sets.wanted(published)
                say(f"skipped: {published.name}: not in {folder}: {absent[published.name]}")
                continue
            try:
                sets[published.name] = measure_set(found, started, options)
            except (OSError, ValueError) as error:
                absent[published.name] = f"not read: {error}"
                say(f"skipped: {published.name}: {error}")
    return (
        {
            "sets": sets,
            "absent": absent,
            "titles": trainings.TITLES,
            "epochs": options.epochs,
            "points_at_most": options.points,
            "test_points_at_most": options.test_points,
            "limit_seconds": options.limit,
            "quick": options.quick,
        }
        | machine
        | {"foreign_load": foreign.processors()}
    )


def set_names(text: str) -> list[Published]:
    known = {published.name: published for published in published_sets.SETS}
    for name in text.split(","):
        if name not in known:
            raise argparse.ArgumentTypeError(f"no set '{name}'; there are: {', '.join(known)}")
    return [known[name] for name in text.split(",")]


def folder(text: str) -> pathlib.Path:
    if not pathlib.Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is no folder")
    return pathlib.Path(text).resolve()


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
        "--data", type=folder, metavar="DIR", help="with the published sets, one folder each"
    )
    parser.add_argument(
        "--sets",
        type=set_names,
        default=",".join(published.name for published in published_sets.SETS),
        help="default: %(default)s",
    )
    parser.add_argument("--points", type=positive, help="train on so many, evenly spread")
    parser.add_argument(
        "--test-points",
        type=positive,
        default=20_000,
        help="test on so many; every label is scored for each (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs", type=positive, help="of the networks with a paper's settings (default: 5)"
    )
    parser.add_argument(
        "--limit",
        type=positive,
        default=7200,
        help="seconds of one training; what takes longer is left out (default: %(default)s)",
    )
    parser.add_argument("--page", type=pathlib.Path, metavar="FOLDER", help="write paper.md there")
    parser.add_argument("--quick", action="store_true", help="on tiny files made for it")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args(arguments)
    if options.data is None and not options.quick:
        parser.error("--data DIR: the folder of the published sets (docs/contribute/benchmarking.md)")
    options.epochs = options.epochs or (1 if options.quick else 5)
    return options


def main() -> int:
    options = parse(sys.argv[1:])
    result = measure(options)
    if not result["sets"]:
        say(f"skipped: none of the sets is in {options.data}")
        return programs.SKIPPED
    if options.page:
        options.page.mkdir(parents=True, exist_ok=True)
        (options.page / "paper.md").write_text(paper_tables.page(result), encoding="utf-8")
        say(f"wrote {options.page / 'paper.md'}")
    measurement.report(
        result, options.output == "json", [paper_tables.paper(result), measurement.footer(result)]
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
