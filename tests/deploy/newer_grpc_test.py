"""newer-grpc.sh on a stand-in for apt: the versions that it installs, or what it says."""

import os
import pathlib
import re
import shutil
import subprocess

import cases
import pytest
from processes import PATIENCE_SECONDS

IMAGE = cases.DEPLOY / "image"
PINS = {"libgrpc++-dev": "1.83.0-2+b1", "libgrpc56": "1.83.0-2+b1", "libabsl-dev": "2026-1"}
# A mirror is a folder with what it offers, the installed packages are a file; both have lines of
# package and version. An install takes the newest that is pinned, or else all that is offered.
APT = """\
#!/bin/sh
offered() { sed -nE 's/^deb (\\[.*\\] )?([^ ]+) .*/\\2/p' "$DESTDIR"/etc/apt/sources.list.d/*.list |
  sort -u | while read -r place; do cat "$place/offered" 2>/dev/null; done; }
case "$(basename "$0") $*" in
  # Names stand at the right end of ten columns, longer ones at the left.
  'apt-cache madison '*) offered | sed -n "s/^$2 //p" |
    while read -r version; do printf '%10s | %10s | somewhere\\n' "$2" "$version"; done ;;
  'dpkg-query '*) for package; do :; done
    sed -n "s/^$package //p" "$DESTDIR/installed" ;;
  'apt-get update '*) echo 'Date: Fri, 30 Oct 2026 08:08:01 UTC' \\
    >"$DESTDIR/var/lib/apt/lists/mirror_dists_experimental_InRelease" ;;
  'apt-get -s install '*)
    offered | sed -E 's/(.*) (.*)/Inst \\1 [1.51] (\\2 Debian:experimental [amd64])/' ;;
  'apt-get '*' install '*) echo "$*" >>"$DESTDIR/calls"; offered >"$DESTDIR/installed" ;;
esac
"""


class Machine:
    """A Debian 13 with a copy of the script, a mirror, and the archive of old versions."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        for name in ("etc/apt/sources.list.d", "etc/apt/preferences.d", "var/lib/apt/lists", "bin",
                     "mirror", "old/20261030T120000Z"):
            (folder / name).mkdir(parents=True)
        (folder / "etc/os-release").write_text('VERSION_ID="13"\n')
        (folder / "installed").write_text("libabsl-dev 2024-1\n")
        for program in ("apt-get", "apt-cache", "dpkg-query"):
            (folder / "bin" / program).write_text(APT)
            (folder / "bin" / program).chmod(0o755)
        shutil.copy(IMAGE / "newer-grpc.sh", folder)
        self.versions = folder / "newer-grpc.versions"
        self.versions.write_text("# why\narchive 20261030T120000Z\n" + lines(PINS))

    def offer(self, where: str, packages: dict[str, str]) -> None:
        (self.folder / where / "offered").write_text(lines(packages))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.folder / "newer-grpc.sh", *arguments, str(self.folder / "mirror")],
            capture_output=True, text=True, timeout=PATIENCE_SECONDS,
            env=os.environ | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                              "DESTDIR": str(self.folder),
                              "NEWER_GRPC_ARCHIVE": str(self.folder / "old")})

    def check_clean(self) -> None:
        for name in ("etc/apt/sources.list.d", "var/lib/apt/lists"):
            assert not list((self.folder / name).iterdir()), name

    def installed(self) -> str:
        return (self.folder / "installed").read_text()


def lines(packages: dict[str, str]) -> str:
    return "".join(f"{name} {version}\n" for name, version in packages.items())


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path)


def test_the_listed_versions_are_pinned_and_nothing_else_is_taken(machine: Machine) -> None:
    machine.offer("mirror", PINS)
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert machine.installed() == lines(PINS)
    preferences = (machine.folder / "etc/apt/preferences.d/newer-grpc").read_text()
    for suite in ("unstable", "experimental"):
        assert f"Package: *\nPin: release a={suite}\nPin-Priority: -1\n" in preferences
    assert "Package: libgrpc56\nPin: version 1.83.0-2+b1\nPin-Priority: 1001\n" in preferences
    assert preferences.count("Pin: version") == len(PINS)
    # The index of the release alone is left, and a second call has nothing to do.
    machine.check_clean()
    (machine.folder / "calls").unlink()
    assert machine.run().returncode == 0
    assert not (machine.folder / "calls").exists()


def test_what_the_mirror_has_no_more_comes_from_the_archive(machine: Machine) -> None:
    machine.offer("mirror", PINS | {"libgrpc56": "1.84.0-1"})
    machine.offer("old/20261030T120000Z", PINS)
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert "mirror does not have libgrpc56 1.83.0-2+b1\n" in done.stderr
    assert machine.installed() == lines(PINS)


def test_versions_that_are_nowhere_are_refused_with_what_helps(machine: Machine) -> None:
    machine.offer("mirror", PINS | {"libgrpc56": "1.84.0-1"})
    done = machine.run()
    assert done.returncode == 1
    for said in ("does not have libgrpc56 1.83.0-2+b1", "GRPC_MIRROR", "docs/contribute/hosts.md"):
        assert said in done.stderr
    assert machine.installed() == "libabsl-dev 2024-1\n"
    machine.check_clean()


def test_an_older_release_is_told_what_it_can_have(machine: Machine) -> None:
    (machine.folder / "etc/os-release").write_text('VERSION_ID="12"\n')
    done = machine.run()
    assert done.returncode == 1
    assert "this is Debian 12" in done.stderr
    assert "GRPC=debian" in done.stderr


def test_the_newest_versions_become_the_list(machine: Machine) -> None:
    newer = {name: version + ".1" for name, version in sorted(PINS.items())}
    machine.offer("mirror", newer)
    done = machine.run("--newest")
    assert done.returncode == 0, done.stderr
    first, archive, *listed = machine.versions.read_text().splitlines()
    assert first == "# why"
    assert archive == "archive 20261030T120801Z"
    assert listed == lines(newer).splitlines()
    (machine.folder / "mirror/offered").write_text("")
    refused = machine.run("--newest")
    assert refused.returncode == 1
    assert "nothing newer to install" in refused.stderr
    assert machine.versions.read_text().splitlines()[2:] == listed


def test_the_list_of_the_image_is_whole() -> None:
    text = cases.read("deploy/image/newer-grpc.versions")
    listed = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
    wanted = cases.find(r"^wanted='([^']*)'", cases.read("deploy/image/newer-grpc.sh")).split()
    assert {*wanted, "archive"} <= set(listed)
    # All of gRPC, and all of protobuf, are of one version.
    for word in ("grpc|upb", "libprotobuf|libprotoc|protobuf-compiler$"):
        assert len({version for name, version in listed.items()
                    if re.search(word, name)}) == 1, word
