"""Makes the files of a release's images from programs that are there: what builder.py calls, here
or in the root of another Debian release.

usage: image_tree.py --bin-dir DIR --version V --revision R --created TIME --output DIR

OUTPUT/root is the root file system with its bill of materials, OUTPUT/example a data set from the
package index of the Debian that this runs in, and its model. Needs nothing but Python and binutils.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("dslide", "dslide-shard", "dslide-coordinator")
SBOM = "usr/share/dslide/sbom.spdx.json"
# Headers alone: nothing in the image would tell a scanner of them.
COMPILED_IN = ("libcli11-dev", "nlohmann-json3-dev")
# Places at which a process can be made to die are for tests alone.
_FAILPOINT_MARK = b"dslide-failpoint:"


def _run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), stdout=sys.stderr, check=False)
    if done.returncode != 0:
        sys.exit(f"image_tree: {command[0]} ended with {done.returncode}; its messages are above")


def strip_programs(bin_dir: pathlib.Path, programs: pathlib.Path) -> None:
    for name in PROGRAMS:
        if not (bin_dir / name).is_file():
            sys.exit(f"image_tree: {bin_dir / name} is missing: ./run build makes it")
        if _FAILPOINT_MARK in (bin_dir / name).read_bytes():
            sys.exit(f"image_tree: {bin_dir / name} is a build for tests, which has failpoints: "
                     "./run build makes the one for users")
    programs.mkdir(parents=True)
    for name in PROGRAMS:
        _run("strip", "--strip-unneeded", "-o", programs / name, bin_dir / name)


def make_root(options: argparse.Namespace, programs: pathlib.Path) -> None:
    root = options.output / "root"
    _run(sys.executable, ROOT / "deploy/image/rootfs.py", "--output", root, "--license",
         ROOT / "LICENSE", *(programs / name for name in PROGRAMS))
    _run(sys.executable, ROOT / "deploy/image/sbom.py", "--root", root, "--version",
         options.version, "--revision", options.revision, "--compiled-in", *COMPILED_IN,
         "--created", options.created, "--output", root / SBOM)


def make_example(options: argparse.Namespace, programs: pathlib.Path) -> None:
    examples = options.output / "example/usr/share/dslide/examples"
    data = examples / "debian-packages"
    _run(programs / "dslide", "data", "debian-packages", "--output", data)
    shutil.copyfile(ROOT / "docs/models/debian-packages.json", data / "model.json")
    for path in [examples, *examples.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--revision", required=True)
    parser.add_argument("--created", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    programs = options.output / "programs"
    strip_programs(options.bin_dir, programs)
    make_root(options, programs)
    make_example(options, programs)


if __name__ == "__main__":
    main()
