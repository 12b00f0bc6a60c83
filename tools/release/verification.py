"""Looks at a release as its users get it: from the registry, with the public key alone."""

from __future__ import annotations

import hashlib
import pathlib
import re
from typing import Any

import signing
from plan import Registry, ReleaseError
from programs import Programs
from publication import CHART, PREDICATES, PROVENANCE, SBOM, SIGNATURE, SUMS, subject_of

_IMAGE = re.compile(r'^\s*(?:- )?image: "?([^"\s]+)"?$', re.MULTILINE)
# What must be listed in a bill of materials: names begin so.
_LISTED = ("dslide", "libgrpc++", "librocksdb", "libssl")


def images_of_chart(programs: Programs, registry: Registry, version: str,
                    values: tuple[str, ...] = ()) -> list[str]:
    """The references of the images that a release of the chart in the registry pulls."""
    text = programs.helm("template", "dslide", f"{registry.charts}/dslide", "--version", version,
                         "--set", "insecure=true", *(word for path in values
                                                     for word in ("-f", path)))
    return sorted(set(_IMAGE.findall(text)))


def verify(programs: Programs, registry: Registry, version: str, public_key: pathlib.Path
           ) -> dict[str, str]:
    """{name: reference by digest} of the images and the chart. ReleaseError for what is missing,
    was signed with another key or not at all, or does not belong together."""
    references = {}
    for name in ("dslide", "dslide-example", CHART):
        tagged = registry.reference(name, version)
        digest = programs.digest(tagged)
        if digest is None:
            raise ReleaseError(f"{tagged} is not there")
        references[name] = registry.reference(name, digest)
        subject = subject_of(registry, name, digest)
        for found in programs.artifacts(registry.reference(name, subject.tag("sig"))):
            signing.check_signature(public_key, subject, found)
        if name != CHART:
            programs.crane("validate", "--remote", references[name])
        stated = dict(signing.check_statement(public_key, subject, found) for found in
                      programs.artifacts(registry.reference(name, subject.tag("att"))))
        missing = set(PREDICATES if name != CHART else [PROVENANCE]) - set(stated)
        if missing:
            raise ReleaseError(f"{references[name]}: nothing is stated of the kind "
                               f"{', '.join(sorted(missing))}")
        _check_statements(name, stated)
    pulled = images_of_chart(programs, registry, version)
    if pulled != [references["dslide"]]:
        raise ReleaseError(f"the chart {version} pulls {pulled}, not {references['dslide']}")
    return references


def _check_statements(name: str, stated: dict[str, Any]) -> None:
    source = stated[PROVENANCE]["buildDefinition"]["resolvedDependencies"][0]
    if not source["digest"].get("gitCommit"):
        raise ReleaseError(f"{name}: its provenance names no commit")
    if SBOM in stated:
        names = [package["name"] for package in stated[SBOM]["packages"]]
        missing = [word for word in _LISTED
                   if not any(listed.startswith(word) for listed in names)]
        if missing:
            raise ReleaseError(f"{name}: not in its bill of materials: {', '.join(missing)}")


def verify_files(folder: pathlib.Path, public_key: pathlib.Path) -> int:
    """The number of files that are as they were signed."""
    signing.check(public_key, (folder / SUMS).read_bytes(),
                  (folder / SIGNATURE).read_text(encoding="ascii"))
    lines = (folder / SUMS).read_text(encoding="ascii").splitlines()
    for line in lines:
        wanted, _, name = line.partition("  ")
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != wanted:
            raise ReleaseError(f"{folder / name} is not the file that was signed")
    return len(lines)
