"""Makes a release and brings it to a registry; see task.sh."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import tempfile

import publication
import rehearsal
import signing
import verification
from builder import Builder, Here, InRoot
from plan import ROOT, Plan, Registry, ReleaseError
from programs import Programs
from publication import say

# Of a dry run without a registry: a name that can be resolved nowhere.
_NOWHERE = "registry.invalid/dslide"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run release", allow_abbrev=False)
    parser.add_argument("task", choices=("publish", "verify", "rehearse", "key"))
    parser.add_argument("--crane", type=pathlib.Path, default=pathlib.Path())
    parser.add_argument("--cosign", type=pathlib.Path)
    parser.add_argument("--helm", type=pathlib.Path, default=pathlib.Path())
    parser.add_argument("--bin-dir", type=pathlib.Path, default=ROOT / "build/bin")
    parser.add_argument("--grpc", choices=("debian", "experimental"), default="experimental")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--registry")
    parser.add_argument("--key")
    parser.add_argument("--public-key", type=pathlib.Path)
    parser.add_argument("--version")
    parser.add_argument("--files", type=pathlib.Path)
    parser.add_argument("--also", type=pathlib.Path, action="append", default=[])
    parser.add_argument("-o", dest="form", choices=("json",))
    return parser.parse_args()


def _need(value: str | pathlib.Path | None, flag: str, what: str) -> str:
    if not value:
        raise ReleaseError(f"{flag} is missing: {what}")
    return str(value)


def builder_of(options: argparse.Namespace) -> Builder:
    return Here(options.bin_dir) if options.grpc == "debian" else InRoot()


def publish(options: argparse.Namespace, home: pathlib.Path) -> dict[str, str]:
    registry = Registry.parse(options.registry or (_NOWHERE if options.dry_run else _need(
        None, "--registry", "the place that images and chart are pushed to, HOST/PREFIX")))
    version = (ROOT / "VERSION").read_text(encoding="ascii").strip()
    plan = Plan.of_checkout(registry, options.files or ROOT / "build" / "release" / version)
    programs = Programs(home, options.helm, options.crane, registry)
    builder = builder_of(options)
    if not options.dry_run:
        _need(options.key, "--key", "the private key; ./run release key makes one")
        if plan.changed:
            raise ReleaseError("the checkout differs from its commit: " + ", ".join(
                line[3:] for line in plan.changed[:5]) + ": commit, or put it aside")
        builder.check(plan)
    made = publication.make(plan, builder, programs, options.also, clients=True)
    if options.dry_run:
        say(f"a dry run: nothing was pushed or signed; the files are in {plan.output}")
        return {name: registry.reference(name, layout.digest)
                for name, layout in made.images.items()}
    publication.publish(plan, made, programs, pathlib.Path(options.key))
    say("verifying what the registry has")
    public_key = plan.output / publication.PUBLIC_KEY
    references = verification.verify(programs, registry, plan.version, public_key)
    verification.verify_files(plan.output, public_key)
    return references


def verify(options: argparse.Namespace, home: pathlib.Path) -> dict[str, str]:
    registry = Registry.parse(_need(options.registry, "--registry", "where the release is"))
    key = _need(options.public_key, "--public-key", "the file cosign.pub of the release")
    version = options.version or (ROOT / "VERSION").read_text(encoding="ascii").strip()
    programs = Programs(home, options.helm, options.crane, registry)
    return verification.verify(programs, registry, version, pathlib.Path(key))


def make_key(options: argparse.Namespace, _: pathlib.Path) -> dict[str, str]:
    path = pathlib.Path(_need(options.key, "--key", "the file that is made"))
    signing.make_key(path)
    public = path.with_suffix(".pub")
    public.write_bytes(signing.public_key(path))
    return {"private key": str(path), "public key": str(public)}


def main() -> None:
    options = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="dslide-release-") as temporary:
        home = pathlib.Path(temporary)
        try:
            if options.task == "rehearse":
                found = rehearsal.rehearse(options.helm, options.crane, options.cosign,
                                           builder_of(options), home)
            else:
                found = {"publish": publish, "verify": verify,
                         "key": make_key}[options.task](options, home)
        except ReleaseError as error:
            sys.exit(f"release: {error}")
    if options.form == "json":
        print(json.dumps(found))
    else:
        print("\n".join(f"{name}  {what}" for name, what in found.items()))


if __name__ == "__main__":
    main()
