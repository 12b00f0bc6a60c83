"""The published packages of the peers, each lock file in an environment outside the checkout."""

import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools/common"))

import python_package  # noqa: E402

LOCKS = {"peers": HERE / "requirements.txt", "torch": HERE / "requirements-torch.txt"}
# What makes the environment.
_REMEDIES = {
    "peers": "make it with ./run bench peers, without --no-install",
    "torch": "PyTorch is 6 GB: it is installed with --with-torch only",
}
_PROBE_SECONDS = 120


def locked(name: str) -> dict[str, str]:
    """{distribution: version} of a lock file; the peers stand before the first empty line."""
    pairs = re.findall(r"^([\w.-]+)==(\S+)$", LOCKS[name].read_text(encoding="utf-8"), re.MULTILINE)
    return dict(pairs)


def peers_of(name: str) -> list[str]:
    """Those lines of a lock file that are peers."""
    head = LOCKS[name].read_text(encoding="utf-8").partition("\n\n")[0]
    return [line for line in head.splitlines() if not line.startswith("#")]


class Environment:
    """An interpreter with the packages of a lock file; `name` is a key of LOCKS."""

    def __init__(self, name: str, may_install: bool) -> None:
        self.name, self._lock = name, LOCKS[name]
        self._folder = python_package.environment_folder(self._lock, f"bench-{name}")
        self._why_not = ""
        try:
            if may_install:
                python_package.environment(self._lock, f"bench-{name}", self._fill)
        except (OSError, subprocess.CalledProcessError) as error:
            self._why_not = f"{error}"

    @property
    def python(self) -> pathlib.Path:
        return pathlib.Path(self._folder, "bin/python")

    def why_not(self, module: str) -> str | None:
        """Why a module of a peer cannot be used, and what installs it; None where it can."""
        how = (
            f"install it with: {self.python} -m pip install --no-deps --requirement "
            f"{self._lock.relative_to(HERE.parents[1])}"
        )
        if not python_package.is_made(self._folder):
            if self._why_not:
                return f"{self._why_not}; {how}"
            return f"no environment in {self._folder}; {_REMEDIES[self.name]}"
        done = subprocess.run(
            [self.python, "-c", f"import {module}"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_PROBE_SECONDS,
            check=False,
        )
        if done.returncode == 0:
            return None
        return f"{done.stderr.strip().splitlines()[-1]}; {how}"

    def _fill(self, folder: pathlib.Path) -> None:
        """The peers one by one: that one cannot be built here does not take the others along."""
        peers = peers_of(self.name)
        self._pip(
            folder,
            [
                f"{name}=={version}"
                for name, version in locked(self.name).items()
                if f"{name}=={version}" not in peers
            ],
        )
        for peer in peers:
            try:
                self._pip(folder, [peer])
            except subprocess.CalledProcessError as error:
                python_package.say(f"{peer} could not be installed: {error}")

    def _pip(self, folder: pathlib.Path, packages: Sequence[str]) -> None:
        python_package.pip(folder, "install", "--no-deps", *packages)
