"""The images of a release: dslide, and the same with a data set to train on."""

from __future__ import annotations

import json
import pathlib
import subprocess
import tempfile
from typing import Any

from builder import Builder
from image_tree import SBOM
from oci_layout import Image, Layout, layer_of_folder, layer_with_folder
from plan import Plan

NAMES = ("dslide", "dslide-example")
_USER = 10001
PORTS = (7000, 7001, 7010, 7011, 7021, 7030, 7031, 7032)


def _config(plan: Plan) -> dict[str, Any]:
    """As deploy/image/Dockerfile has it."""
    label = "org.opencontainers.image"
    return {
        "User": f"{_USER}:{_USER}", "WorkingDir": "/tmp", "Env": ["PATH=/usr/bin"],
        "Entrypoint": ["/usr/bin/dslide"], "Cmd": ["--help"],
        "ExposedPorts": {f"{port}/tcp": {} for port in PORTS},
        "Labels": {
            f"{label}.title": "dslide",
            f"{label}.description": "Trains very wide models on cheap machines",
            f"{label}.licenses": "Apache-2.0",
            f"{label}.version": plan.version,
            f"{label}.revision": plan.revision[:12],
            f"{label}.documentation": "docs/operate/deployment.md",
        },
    }


def make(plan: Plan, builder: Builder, layouts: pathlib.Path) -> tuple[dict[str, Layout],
                                                                       dict[str, Any]]:
    """Layouts by the names of the images, for this machine's architecture, and the bill of
    materials, which both have."""
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True,
                                  check=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="dslide-release-") as temporary:
        try:
            tree = builder.make(plan, pathlib.Path(temporary))
            layers = [layer_of_folder(tree / "root"),
                      layer_with_folder("var/lib/dslide", _USER, 0o700)]
            example = layer_of_folder(tree / "example")
            sbom = json.loads((tree / "root" / SBOM).read_text(encoding="utf-8"))
        finally:
            builder.free()
    made = {name: Layout(layouts / name) for name in NAMES}
    for name, content in zip(NAMES, (layers, [*layers, example])):
        made[name].write(Image(architecture, plan.time, _config(plan), content))
    return made, sbom
