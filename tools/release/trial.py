"""Brings this tree, as it is, to a registry as a release, signed with a key that ends with it: for
what tries its installation. `./run release` checks the checkout besides, and makes the packages of
the clients.

usage: trial.py --registry HOST/PREFIX --helm FILE --crane FILE --bin-dir DIR
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import tempfile

import publication
import signing
import verification
from builder import Here
from plan import Plan, Registry, ReleaseError
from programs import Programs


def publish(options: argparse.Namespace, home: pathlib.Path) -> None:
    plan = Plan.of_checkout(Registry.parse(options.registry), home / "release")
    programs = Programs(home, options.helm, options.crane, plan.registry)
    key = home / "release.key"
    os.environ[signing.PASSWORD] = "dslide-trial"
    signing.make_key(key)
    made = publication.make(plan, Here(options.bin_dir), programs, (), clients=False)
    publication.publish(plan, made, programs, key)
    verification.verify(programs, plan.registry, plan.version,
                        made.output / publication.PUBLIC_KEY)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--registry", required=True)
    for path in ("--helm", "--crane", "--bin-dir"):
        parser.add_argument(path, type=pathlib.Path, required=True)
    with tempfile.TemporaryDirectory(prefix="dslide-release-") as home:
        try:
            publish(parser.parse_args(), pathlib.Path(home))
        except ReleaseError as error:
            sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
