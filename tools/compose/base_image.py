"""The image that images are built from: a Debian release, also where no registry can be reached."""

import os
import pathlib
import shutil
import subprocess

import debian_root
from engine import Engine, Unavailable, note


def provide(engine: Engine, suite: str, directory: str | pathlib.Path) -> str:
    """The name of the suite's base image: pulled, or made of Debian's packages where no registry
    can be reached."""
    name = f"debian:{suite}-slim"
    if engine.has_image(name):
        return name
    if engine.docker("pull", "-q", name, accept=(0, 1), within=300).returncode == 0:
        return name
    if not shutil.which("debootstrap"):
        raise Unavailable(f"{name} cannot be pulled, and debootstrap, which would make it, "
                          "is not installed")
    note(f"{name} cannot be pulled: making it with debootstrap")
    root = debian_root.DebianRoot(suite, pathlib.Path(directory) / f"root-{suite}")
    shutil.rmtree(root.folder, ignore_errors=True)  # of a run that was ended
    root.make()
    # A mirror that is behind its time is behind it for builds, too.
    root.take_apt_settings()
    with subprocess.Popen(["tar", "-C", root.folder, "-c", "."], stdout=subprocess.PIPE) as packer:
        subprocess.run(["docker", "import", "-", name], stdin=packer.stdout, check=True,
                       env=os.environ | engine.environment, stdout=subprocess.DEVNULL, timeout=300)
    shutil.rmtree(root.folder)
    return name
