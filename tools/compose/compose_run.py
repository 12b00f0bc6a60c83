"""Builds the image and runs clusters of containers: what ./run compose calls.

usage: compose_run.py [--start-engine] [--engine-dir DIR] [--programs compiled|prebuilt]
                      [--grpc experimental|debian] [--image NAME --example-image NAME]
                      [--only PART...] [--epochs N] [-o json]

Parts: image, compose, jobs, tls, vms. stderr tells what happens; stdout ends with the figures, with
-o json as one JSON object. Status 0: all held; 1: something did not; 77: this machine cannot do it.
"""

import argparse
import pathlib
import signal
import sys
import tempfile
from typing import Any

import compose_check
import image_check
import jobs_check
import tls_check
import vms_check
from engine import Engines, Unavailable, note, require_compose, show

SKIPPED = 77
PARTS = ("image", "compose", "jobs", "tls", "vms")


def run_parts(engines: Engines, options: argparse.Namespace, directory: pathlib.Path,
              figures: dict[str, Any]) -> None:
    """Fills in the figures part by part, so that those before a failure are kept."""
    image, example = options.image, options.example_image
    if not image:
        with engines.to_build() as engine:
            image, example, seconds = image_check.build(engine, directory, options.programs,
                                                            options.grpc)
        figures.update(build_seconds=round(seconds, 1), programs=options.programs,
                       grpc=options.grpc)
    epochs = ["--epochs", str(options.epochs)] if options.epochs else []
    with engines.to_run() as engine:
        parts = {
            "image": lambda: image_check.check_image(engine, image),
            "compose": lambda: compose_check.check_compose(engine, image, example, epochs),
            "jobs": lambda: jobs_check.check_jobs(engine, image, example, directory),
            "tls": lambda: tls_check.check_tls(engine, image, example, directory),
            "vms": lambda: vms_check.check_machines(engine, image, example, directory),
        }
        for name in options.only:
            try:
                figures.update(parts[name]())
            except Unavailable as reason:
                note(f"SKIPPED: {name}: {reason}")
                figures["skipped"].append(name)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--start-engine", action="store_true")
    parser.add_argument("--engine-dir", type=pathlib.Path)
    parser.add_argument("--programs", choices=("compiled", "prebuilt"), default="compiled")
    parser.add_argument("--grpc", choices=tuple(image_check.BASES))
    parser.add_argument("--image")
    parser.add_argument("--example-image")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    options = parser.parse_args()
    if bool(options.image) != bool(options.example_image):
        parser.error("--image and --example-image belong together")
    options.grpc = options.grpc or ("debian" if options.programs == "prebuilt" else "experimental")
    if options.programs == "prebuilt" and options.grpc != "debian":
        parser.error(f"--programs prebuilt has the gRPC of this machine; for --grpc {options.grpc} "
                     "the programs are compiled in the image")
    if options.epochs is not None and options.epochs < 4:
        parser.error(f"--epochs is {options.epochs}; shards are disturbed after the first three: "
                     "give 4 or more")
    return options


def main() -> int:
    # Ended from outside, it still takes away what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse()
    figures: dict[str, Any] = {"passed": False, "skipped": []}
    with tempfile.TemporaryDirectory(prefix="dslide-engine-") as temporary:
        directory = options.engine_dir or pathlib.Path(temporary)
        try:
            require_compose()
            run_parts(Engines(options.start_engine, directory), options, directory, figures)
            figures["passed"] = True
        except Unavailable as reason:
            note(f"SKIPPED: {reason}")
            figures["skipped"] = list(options.only)
            show(figures, options.output, width=28)
            return SKIPPED
        except AssertionError as failure:
            note(f"FAILED: {failure}")
    show(figures, options.output, width=28)
    return 0 if figures["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
