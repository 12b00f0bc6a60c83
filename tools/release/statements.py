"""What is stated of a release, to be signed: how it was made (SLSA), and what its known
vulnerabilities mean for its users (OpenVEX)."""

from __future__ import annotations

import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from oci_layout import Layout
from plan import ROOT, Plan

VULNERABILITIES = ROOT / "deploy" / "image" / "vulnerabilities.json"
_BUILD_TYPE = "urn:dslide:release:1"
_SOURCE = "git+urn:dslide:source"


def build_packages() -> list[str]:
    """The Debian packages that a build needs, as tools/common/package_lists.sh has them."""
    text = (ROOT / "tools/common/package_lists.sh").read_text(encoding="utf-8")
    found = re.search(r"^readonly BUILD_PACKAGES=\((.*?)\)", text, re.MULTILINE | re.DOTALL)
    return found[1].split() if found else []


def _installed(packages: Iterable[str], debian: pathlib.Path) -> list[dict[str, Any]]:
    shown = subprocess.run(
        ["dpkg-query", "--root", debian, "-W", "-f", "${Package} ${Version} ${Architecture}\n",
         *packages],
        capture_output=True, text=True, check=False).stdout
    words = [line.split() for line in shown.splitlines()]
    return [{"name": name, "uri": f"pkg:deb/debian/{urllib.parse.quote(name)}@"
                                  f"{urllib.parse.quote(version, safe='')}?arch={architecture}"}
            for name, version, architecture in (found for found in words if len(found) == 3)]


def provenance(plan: Plan, began: datetime.datetime, debian: pathlib.Path) -> dict[str, Any]:
    """The predicate of https://slsa.dev/provenance/v1. debian: the root of what was built in."""
    ended = datetime.datetime.now(datetime.UTC)
    return {
        "buildDefinition": {
            "buildType": _BUILD_TYPE,
            "externalParameters": {
                "command": "./run release", "version": plan.version,
                "registry": f"{plan.registry.host}/{plan.registry.prefix}",
                "changedFiles": list(plan.changed),
            },
            "resolvedDependencies": [
                {"uri": f"{_SOURCE}@{plan.revision}", "digest": {"gitCommit": plan.revision}},
                *_installed(build_packages(), debian),
            ],
        },
        "runDetails": {
            "builder": {"id": "urn:dslide:builder:tools/release"},
            "metadata": {"startedOn": _time(began), "finishedOn": _time(ended)},
        },
    }


def _time(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _locators(sbom: Mapping[str, Any]) -> dict[str, str]:
    """{name of a package: its purl}."""
    return {item["name"]: item["externalRefs"][0]["referenceLocator"]
            for item in sbom["packages"] if item.get("externalRefs")}


def _is_of(version: str, locator: str) -> bool:
    """Whether a purl's version is this one, or this one with more of Debian's own."""
    quoted = re.escape(urllib.parse.quote(version, safe=""))
    return re.search(rf"@{quoted}(?![0-9.])", locator) is not None


def _told(listed: Mapping[str, Any], locators: Mapping[str, str]
          ) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """(vulnerability, purls of what it is told of, the rest of the statement). A statement counts
    for the version of a component that the list has: with another one it is left out."""
    for entry in listed["statements"]:
        components = [listed["components"][name] for name in entry["components"]]
        of = [locators[name] for component in components for name in component["packages"]
              if _is_of(component["version"], locators.get(name, ""))]
        rest = {key: value for key, value in entry.items()
                if key not in ("components", "vulnerabilities")}
        for vulnerability in entry["vulnerabilities"] if of else ():
            yield vulnerability, of, rest


def vex(plan: Plan, sbom: Mapping[str, Any], images: Mapping[str, Layout]) -> dict[str, Any]:
    """An OpenVEX document of what the bill of materials has."""
    listed = json.loads(VULNERABILITIES.read_text(encoding="utf-8"))
    products = [f"pkg:oci/{name}@{urllib.parse.quote(layout.digest, safe='')}?repository_url="
                f"{plan.registry.host}/{plan.registry.repository(name)}"
                for name, layout in images.items()]
    told = [{"vulnerability": {"name": vulnerability},
             "products": [{"@id": product, "subcomponents": [{"@id": item} for item in of]}
                          for product in products], **rest}
            for vulnerability, of, rest in _told(listed, _locators(sbom))]
    key = hashlib.sha256(json.dumps([products, told], sort_keys=True).encode()).hexdigest()
    return {"@context": "https://openvex.dev/ns/v0.2.0", "@id": f"urn:dslide:vex:{key}",
            "author": "The dslide engineers", "timestamp": plan.time, "version": 1,
            "statements": told}


def write(path: pathlib.Path, content: Mapping[str, Any]) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path
