"""Where the programs of a release are compiled, and the files of its images made: in a root of
Debian 13 with the newer gRPC, as the Dockerfile's defaults have it, or on this machine."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Protocol

import image_tree
from plan import ROOT, Plan, ReleaseError

sys.path.insert(0, str(ROOT / "tools" / "common"))

import build_root  # noqa: E402
from debian_root import DebianRoot, require  # noqa: E402
from engine import CommandFailed, Unavailable  # noqa: E402

SUITE, GRPC = "trixie", "experimental"
_BUILD_SECONDS = 6 * 3600
# Below the root: what image_tree.py leaves there until it is in the layouts.
_TREE = "var/tmp/dslide-release"


def _command(plan: Plan, sources: str | pathlib.Path, bin_dir: str | pathlib.Path,
             output: str | pathlib.Path) -> list[str]:
    return [str(word) for word in (
        "python3", f"{sources}/tools/release/image_tree.py", "--bin-dir", bin_dir, "--version",
        plan.version, "--revision", plan.revision[:12], "--created", plan.time, "--output", output)]


class Builder(Protocol):
    """debian: the root of the Debian whose compilers and libraries are taken."""

    @property
    def debian(self) -> pathlib.Path: ...

    def check(self, plan: Plan) -> None:
        """ReleaseError when the programs would not be of the plan's commit."""

    def make(self, plan: Plan, folder: pathlib.Path) -> pathlib.Path:
        """The folder with what image_tree.py makes: `folder`, or one that free() removes."""

    def free(self) -> None: ...


class Here:
    """The programs of bin_dir, with this machine's libraries."""

    debian = pathlib.Path("/")

    def __init__(self, bin_dir: pathlib.Path) -> None:
        self._bin_dir = bin_dir

    def check(self, plan: Plan) -> None:
        said = subprocess.run([self._bin_dir / "dslide", "version"], capture_output=True, text=True,
                              check=True).stdout.splitlines()[0]
        if f"revision {plan.revision[:12]}" not in said:
            raise ReleaseError(f"{self._bin_dir}: {said} is not of the commit "
                               f"{plan.revision[:12]}: build them anew")

    def make(self, plan: Plan, folder: pathlib.Path) -> pathlib.Path:
        _, *words = _command(plan, ROOT, self._bin_dir, folder)
        if subprocess.run([sys.executable, *words], check=False).returncode != 0:
            raise ReleaseError("the files of the images could not be made (messages above)")
        return folder

    def free(self) -> None:
        pass


class InRoot:
    """Compiles the last commit in a root that stays for the next time, also of ./run host."""

    def __init__(self, root: DebianRoot | None = None) -> None:
        self._root = root or DebianRoot(SUITE, build_root.place(SUITE, GRPC))

    @property
    def debian(self) -> pathlib.Path:
        return self._root.folder

    def check(self, plan: Plan) -> None:
        """It is the plan's commit that is compiled."""

    def _update(self) -> None:
        """The root is as old as its first run, and what is shipped is to have today's fixes."""
        (self.debian / "etc/apt/sources.list.d/security.list").write_text(
            f"deb {self._root.mirror}-security {SUITE}-security main\n", encoding="ascii")
        for words in (["update", "-q"], ["upgrade", "-y", "-q"]):
            build_root.run_inside(self._root, "apt-get", *words)

    def _run(self, words: Sequence[str], within: float) -> None:
        status = self._root.run(words, build_root.environment(), within, sys.stderr)
        if status != 0:
            raise ReleaseError(f"{words[0]} ended with {status} in {self.debian} (messages above)")

    def make(self, plan: Plan, folder: pathlib.Path) -> pathlib.Path:
        try:
            require()
            built = build_root.prepare(self._root, GRPC)
            if built != plan.revision[:12]:
                raise ReleaseError(f"{self.debian}/src is of {built}, not of {plan.revision[:12]}: "
                                   "the checkout has another commit now; begin anew")
            self._update()
            build_root.run_inside(
                self._root, "apt-get", "install", "-y", "-q", "--no-install-recommends",
                "python3-minimal", "libpython3-stdlib", "binutils")
            self._run(["/src/run", "build", *image_tree.PROGRAMS], _BUILD_SECONDS)
            self.free()
            self._run(_command(plan, "/src", "/src/build/bin", f"/{_TREE}"), _BUILD_SECONDS)
        except Unavailable as reason:
            raise ReleaseError(f"no root of Debian 13 with the image's gRPC here: {reason}; or "
                               "give --grpc debian, which takes this machine's") from reason
        except CommandFailed as failure:
            raise ReleaseError(str(failure)) from failure
        return self.debian / _TREE

    def free(self) -> None:
        shutil.rmtree(self.debian / _TREE, ignore_errors=True)
