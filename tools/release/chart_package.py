"""The chart of a release: its values name the images by digest: it pulls what was signed."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Mapping

from oci_layout import Layout
from plan import ROOT, Plan, ReleaseError
from programs import Programs

CHART = ROOT / "helm" / "dslide"
_BLOCK = re.compile(r"^image:\n(?:  .*\n)+", re.MULTILINE)
_REPOSITORY = re.compile(r"^  repository: *(\S+)$", re.MULTILINE)


def _set(block: str, key: str, value: str) -> str:
    line = f'  {key}: "{value}"'
    pattern = re.compile(rf"^  {key}:.*$", re.MULTILINE)
    if pattern.search(block):
        return pattern.sub(line, block)
    return block.rstrip("\n") + f"\n{line}\n"


def stamp(text: str, plan: Plan, images: Mapping[str, Layout], default: bool) -> str:
    """A file of values with the image that it names as the registry has it.

    default: of values.yaml, which says what holds for all; other files are changed where they name
    an image of their own.
    """
    found = _BLOCK.search(text)
    named = _REPOSITORY.search(found[0]) if found else None
    if not found or not named:
        if default:
            raise ReleaseError("helm/dslide/values.yaml has no image.repository")
        return text
    layout = images.get(named[1])
    if layout is None:
        raise ReleaseError(f"the chart's values name the image {named[1]}, and the release has "
                           f"{', '.join(images)}")
    block = _set(found[0], "repository", plan.registry.repository(named[1]))
    block = _set(block, "digest", layout.digest)
    if default:
        block = _set(block, "registry", plan.registry.host)
        # One architecture is what pods are bound to, several bind them to none.
        block = _set(block, "architecture",
                     layout.architectures[0] if len(layout.architectures) == 1 else "")
    return text[:found.start()] + block + text[found.end():]


def package(plan: Plan, images: Mapping[str, Layout], programs: Programs, output: pathlib.Path
            ) -> pathlib.Path:
    """The packed chart in the folder `output`."""
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dslide-release-") as temporary:
        copied = pathlib.Path(shutil.copytree(CHART, pathlib.Path(temporary) / "dslide"))
        for path in [copied / "values.yaml", *sorted((copied / "values").glob("*.yaml"))]:
            path.write_text(stamp(path.read_text(encoding="utf-8"), plan, images,
                                  default=path.name == "values.yaml"), encoding="utf-8")
        moment = plan.created.timestamp()
        for path in [copied, *copied.rglob("*")]:
            os.utime(path, (moment, moment))
        programs.helm("package", copied, "--destination", output, "--version", plan.version,
                      "--app-version", plan.version)
    return output / f"dslide-{plan.version}.tgz"
