"""Builds and tests the last commit in a root of another Debian release: what ./run host calls.

usage: host_run.py [--suite SUITE] [--root DIR] [--grpc debian|experimental] [--mirror URL]
                   [-o json] [-- CTEST ARGUMENTS...]

stderr tells what happens; stdout ends with the figures, with -o json as one JSON object. Status 0:
all held; 1: something did not; 77: this machine cannot do it.
"""

import argparse
import json
import pathlib
import re
import signal
import sys
import tempfile
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))

import build_root  # noqa: E402
import debian_root  # noqa: E402
from engine import CommandFailed, Unavailable, note, run, say, show  # noqa: E402

SKIPPED = 77
TEST_SECONDS = 6 * 3600
# What differs between releases, by its Debian package.
LIBRARIES = {"compiler": "g++", "grpc": "libgrpc++-dev", "protobuf": "libprotobuf-dev",
             "abseil": "libabsl-dev", "rocksdb": "librocksdb-dev", "civetweb": "libcivetweb-dev",
             "highway": "libhwy-dev"}


def read_counts(text: str) -> dict[str, int]:
    """{passed, failed, skipped} of the last JSON line of `./run test -o json`."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return {name: int(value) for name, value in json.loads(line).items()}
    raise CommandFailed(f"./run test ended without its counts; its last words: {text[-300:]!r}")


def upstream(version: str) -> str:
    """The version without Debian's own parts: 9.10.0 of 9.10.0-1+b1, 14.2.0 of 4:14.2.0-1."""
    return re.sub(r"^\d+:|\+dfsg.*|-[^-]*$", "", version)


def versions(root: debian_root.DebianRoot) -> dict[str, str | None]:
    """{name: version} of LIBRARIES in the root, and of the release."""
    found: dict[str, str | None] = {
        "debian": (root.folder / "etc/debian_version").read_text().strip()}
    for name, package in LIBRARIES.items():
        asked = run(["dpkg-query", "--root", root.folder, "-W", "-f", "${Version}", package],
                    accept=(0, 1))
        found[name] = upstream(asked.stdout) or None
    return found


def check_host(options: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Fills in the figures; CommandFailed when something did not hold."""
    root = debian_root.DebianRoot(options.suite, options.root, options.mirror)
    figures["revision"] = build_root.prepare(root, options.grpc)
    say(f"Building and testing {figures['revision']} in it")
    with tempfile.TemporaryFile("w+") as output:
        status = root.run(["/src/run", "test", "-o", "json", *options.arguments],
                          build_root.environment(), TEST_SECONDS, output)
        output.seek(0)
        text = output.read()
    figures.update(versions(root))
    figures.update(read_counts(text))
    if status != 0:
        raise CommandFailed(f"./run test ended with {status}: {figures['failed']} failed")


def parse(arguments: list[str]) -> argparse.Namespace:
    place = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", default="trixie")
    parser.add_argument("--root", type=pathlib.Path)
    parser.add_argument("--grpc", choices=build_root.GRPC, default="debian")
    parser.add_argument("--mirror", default=debian_root.MIRROR)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments[:place])
    if not re.fullmatch(r"[a-z]+", options.suite):
        parser.error(f"--suite is {options.suite!r}: give a name such as trixie")
    options.root = (options.root or build_root.place(options.suite, options.grpc)).absolute()
    options.arguments = arguments[place + 1:]
    return options


def main() -> int:
    # Ended from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse(sys.argv[1:])
    figures: dict[str, Any] = {"held": False, "suite": options.suite, "grpc_from": options.grpc}
    status = 1
    try:
        debian_root.require()
        check_host(options, figures)
        figures["held"] = True
        status = 0
    except Unavailable as reason:
        note(f"SKIPPED: {reason}")
        figures["unavailable"] = str(reason)
        status = SKIPPED
    except CommandFailed as failure:
        note(f"FAILED: {failure}")
    show(figures, options.output, width=12)
    return status


if __name__ == "__main__":
    sys.exit(main())
