"""Makes what a release consists of, and brings it to a registry, signed."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import pathlib
import shutil
import sys
from collections.abc import Iterable, Sequence

import chart_package
import client_packages
import release_images
import signing
import statements
from builder import Builder
from oci_layout import Layout
from plan import Plan, Registry, ReleaseError
from programs import Programs

CHART = "charts/dslide"
SUMS, SIGNATURE, PUBLIC_KEY = "SHA256SUMS", "SHA256SUMS.sig", "cosign.pub"
PROVENANCE, SBOM = "https://slsa.dev/provenance/v1", "https://spdx.dev/Document"
VEX = "https://openvex.dev/ns"
# {kind of a statement: its file}
PREDICATES = {SBOM: "dslide.spdx.json", PROVENANCE: "provenance.json", VEX: "dslide.vex.json"}


def say(text: str) -> None:
    print(f"   {text}", file=sys.stderr, flush=True)


@dataclasses.dataclass(frozen=True)
class Made:
    """A release as files."""

    images: dict[str, Layout]
    chart: pathlib.Path
    output: pathlib.Path


def make(plan: Plan, builder: Builder, programs: Programs,
         also: Sequence[pathlib.Path], clients: bool) -> Made:
    """All files below plan.output, which is emptied. also: folders `images` of releases that other
    machines made of the same commit."""
    began = datetime.datetime.now(datetime.UTC)
    shutil.rmtree(plan.output, ignore_errors=True)
    say("images")
    images, sbom = release_images.make(plan, builder, plan.output / "images")
    for folder in also:
        for name, layout in images.items():
            if not (folder / name / "index.json").is_file():
                raise ReleaseError(f"--also {folder}: no layout {name}: name the folder `images` "
                                   "that a release left on another machine")
            try:
                layout.join(Layout(folder / name))
            except ValueError as error:
                raise ReleaseError(f"--also {error}") from error
    has = images["dslide"].architectures
    left_out = {"amd64", "arm64"} - set(has)
    say(f"for {', '.join(has)}" + "".join(
        f"; not for {name}: run it with --dry-run on such a machine, and give --also its images"
        for name in sorted(left_out)))
    statements.write(plan.output / PREDICATES[SBOM], sbom)
    statements.write(plan.output / PREDICATES[VEX], statements.vex(plan, sbom, images))
    say("chart")
    chart = chart_package.package(plan, images, programs, plan.output / "chart")
    if clients:
        say("packages of the clients")
        client_packages.make(plan.output)
    statements.write(plan.output / PREDICATES[PROVENANCE],
                     statements.provenance(plan, began, builder.debian))
    _write_sums(plan.output)
    return Made(images, chart, plan.output)


def _write_sums(output: pathlib.Path) -> None:
    """Of all files but the layouts, whose names are their sums."""
    files = sorted(path for path in output.rglob("*")
                   if path.is_file() and "images" not in path.relative_to(output).parts)
    (output / SUMS).write_text("".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(output)}\n"
        for path in files), encoding="ascii")


def refuse_what_is_there(plan: Plan, made: Made, programs: Programs) -> None:
    """A version is never changed: ReleaseError where the registry has it with another content.

    What a release that was cut off has left there is the same content, and no obstacle.
    """
    for name, layout in made.images.items():
        reference = plan.registry.reference(name, plan.version)
        found = programs.digest(reference)
        if found not in (None, layout.digest):
            raise ReleaseError(f"{reference} is {found} already, and this would be "
                               f"{layout.digest}: a version is never changed; raise VERSION")
    reference = plan.registry.reference(CHART, plan.version)
    if programs.digest(reference) is not None and not _is_chart(reference, made, programs):
        raise ReleaseError(f"{reference} is there already with another content: a version is "
                           "never changed; raise VERSION")


def _is_chart(reference: str, made: Made, programs: Programs) -> bool:
    """Helm notes the time beside the file, so that only the file can be compared."""
    layers = json.loads(programs.crane("manifest", reference)).get("layers", [])
    sums = [f"sha256:{hashlib.sha256(made.chart.read_bytes()).hexdigest()}"]
    return [layer["digest"] for layer in layers] == sums


def subject_of(registry: Registry, name: str, digest: str) -> signing.Subject:
    return signing.Subject(f"{registry.host}/{registry.repository(name)}", digest)


def _sign(plan: Plan, made: Made, programs: Programs, key: pathlib.Path, name: str, digest: str,
          kinds: Iterable[str]) -> None:
    """The statements of these kinds, and then the thing itself."""
    subject = subject_of(plan.registry, name, digest)
    stated = [signing.statement_of(key, subject, kind, json.loads(
        (made.output / PREDICATES[kind]).read_text(encoding="utf-8"))) for kind in kinds]
    programs.push_artifacts(plan.registry.reference(name, subject.tag("att")), stated)
    programs.push_artifacts(plan.registry.reference(name, subject.tag("sig")),
                            [signing.signature_of(key, subject)])


def publish(plan: Plan, made: Made, programs: Programs, key: pathlib.Path) -> dict[str, str]:
    """{name: reference by digest} of what the registry has then, signed."""
    # A wrong key or password is an error before anything is pushed.
    (made.output / PUBLIC_KEY).write_bytes(signing.public_key(key))
    refuse_what_is_there(plan, made, programs)
    references = {}
    for name, layout in made.images.items():
        tagged = plan.registry.reference(name, plan.version)
        say(f"pushing {tagged}")
        programs.crane("push", layout.folder, tagged,
                       *(["--index"] if len(layout.manifests) > 1 else []))
        references[name] = plan.registry.reference(name, layout.digest)
        for digest in dict.fromkeys([layout.digest, *(one["digest"] for one in layout.manifests)]):
            _sign(plan, made, programs, key, name, digest, PREDICATES)
    # Last: whoever finds the chart finds what it names.
    tagged = plan.registry.reference(CHART, plan.version)
    if programs.digest(tagged) is None:
        say(f"pushing {tagged}")
        programs.helm("push", made.chart, plan.registry.charts)
    pushed = programs.digest(tagged)
    if pushed is None:
        raise ReleaseError(f"{tagged} was pushed, and is not there")
    references[CHART] = plan.registry.reference(CHART, pushed)
    _sign(plan, made, programs, key, CHART, pushed, [PROVENANCE])
    (made.output / SIGNATURE).write_text(signing.sign(key, (made.output / SUMS).read_bytes()),
                                         encoding="ascii")
    return references
