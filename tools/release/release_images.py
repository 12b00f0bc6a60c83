"""The images of a release: dslide, and the same with a data set to train on."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from oci_layout import Image, Layout, layer_of_folder, layer_with_folder
from plan import ROOT, Plan, ReleaseError

PROGRAMS = ("dslide", "dslide-shard", "dslide-coordinator")
NAMES = ("dslide", "dslide-example")
SBOM = "usr/share/dslide/sbom.spdx.json"
_USER = 10001
PORTS = (7000, 7001, 7010, 7011, 7021, 7030, 7031, 7032)
# Headers alone: nothing in the image would tell a scanner of them.
COMPILED_IN = ("libcli11-dev", "nlohmann-json3-dev")
# Places at which a process can be made to die are for tests alone.
_FAILPOINT_MARK = b"dslide-failpoint:"


def _run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(map(str, command))}: status {done.returncode} (its messages "
                           "are above)")
    return done.stdout.strip()


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


def _root(plan: Plan, bin_dir: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The root file system with its bill of materials."""
    programs = folder / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        if not (bin_dir / name).is_file():
            raise ReleaseError(f"{bin_dir / name} is missing: ./run build makes it")
        if _FAILPOINT_MARK in (bin_dir / name).read_bytes():
            raise ReleaseError(f"{bin_dir / name} is a build for tests, which has failpoints: "
                               "./run build makes the one for users")
        _run("strip", "--strip-unneeded", "-o", programs / name, bin_dir / name)
    root = folder / "root"
    made = _run(sys.executable, ROOT / "deploy/image/rootfs.py", "--output", root, "--license",
                ROOT / "LICENSE", *(programs / name for name in PROGRAMS))
    listed = _run(sys.executable, ROOT / "deploy/image/sbom.py", "--root", root, "--version",
                  plan.version, "--revision", plan.revision[:12], "--compiled-in", *COMPILED_IN,
                  "--created", plan.time, "--output", root / SBOM)
    print(f"   {made}; {listed}", file=sys.stderr)
    return root


def _example(programs: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A data set from this machine's package index, and its model."""
    examples = folder / "example/usr/share/dslide/examples"
    data = examples / "debian-packages"
    _run(programs / "dslide", "data", "debian-packages", "--output", data)
    shutil.copyfile(ROOT / "docs/models/debian-packages.json", data / "model.json")
    for path in [examples, *examples.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder / "example"


def make(plan: Plan, bin_dir: pathlib.Path, layouts: pathlib.Path) -> tuple[dict[str, Layout],
                                                                            dict[str, Any]]:
    """Layouts by the names of the images, for this machine's architecture, and the bill of
    materials, which both have."""
    architecture = _run("dpkg", "--print-architecture")
    with tempfile.TemporaryDirectory(prefix="dslide-release-") as temporary:
        folder = pathlib.Path(temporary)
        root = _root(plan, bin_dir, folder)
        layers = [layer_of_folder(root), layer_with_folder("var/lib/dslide", _USER, 0o700)]
        example = layer_of_folder(_example(folder / "programs", folder))
        sbom = json.loads((root / SBOM).read_text(encoding="utf-8"))
    made = {name: Layout(layouts / name) for name in NAMES}
    for name, content in zip(NAMES, (layers, [*layers, example])):
        made[name].write(Image(architecture, plan.time, _config(plan), content))
    return made, sbom
