"""Another Debian release on this machine: a root file system, and commands run in it.

    root = DebianRoot("trixie", pathlib.Path("/var/cache/roots/trixie"))
    root.make()
    status = root.run(["apt-get", "update"], {"LANG": "C.UTF-8"}, within=600)

The root shares this machine's kernel, network, /dev and /sys; mounts and processes of a command end
with it. Needs root, debootstrap and unshare: require() says which is missing.
"""

import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

from engine import CommandFailed, Unavailable, Word, note, run

MIRROR = "http://deb.debian.org/debian"
SCRIPTS = pathlib.Path("/usr/share/debootstrap/scripts")
BOOTSTRAP_SECONDS = 1200
# Whom this machine trusts, its own mirrors among them, and where commands inside find it.
AUTHORITIES = pathlib.Path(os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt")
AUTHORITIES_INSIDE = "/etc/ssl/outside.crt"
# Mounts in a namespace of their own, then the command: $1 is the root, the rest the command.
ENTER = ('mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && '
         'mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/run" && exec chroot "$@"')


def require() -> None:
    """Unavailable unless a root can be made and entered here."""
    missing = [name for name in ("debootstrap", "unshare", "chroot") if not shutil.which(name)]
    if missing:
        raise Unavailable(f"{', '.join(missing)} not installed; apt-get install debootstrap "
                          "util-linux coreutils")
    if os.geteuid() != 0:
        raise Unavailable("making and entering another root needs root")
    tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True,
                           text=True)
    if tried.returncode != 0:
        raise Unavailable(f"no mount namespaces here: {tried.stderr.strip()}")


def bootstrap_command(suite: str, root: str | pathlib.Path, mirror: str = MIRROR,
                      scripts: pathlib.Path = SCRIPTS) -> list[str]:
    """debootstrap's command line; an older debootstrap makes a newer suite like unstable."""
    command = ["debootstrap", "--variant=minbase", suite, str(root), mirror]
    return command if (scripts / suite).exists() else [*command, str(scripts / "sid")]


class DebianRoot:
    """The root file system of a suite in a folder; made by make() when it is not there."""

    def __init__(self, suite: str, folder: str | pathlib.Path, mirror: str = MIRROR) -> None:
        self.suite = suite
        self.folder = pathlib.Path(folder)
        self.mirror = mirror
        self._lock: IO[str] | None = None

    def lock(self) -> None:
        """Keeps other processes' runs out of it until this one ends; CommandFailed where one is."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self.folder.with_name(f"{self.folder.name}.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandFailed(f"{self.folder} is in use by another run: wait for its end, or "
                                "give another folder") from None

    def make(self) -> None:
        if (self.folder / "etc/debian_version").exists():
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            raise CommandFailed(f"{self.folder} is neither empty nor a Debian; remove it or give "
                                "another --root")
        note(f"making a {self.suite} with debootstrap in {self.folder}")
        part = self.folder.with_name(self.folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        # What debootstrap mounts is gone with it, also when it is ended: rmtree() above goes into
        # whatever is still mounted.
        run(["unshare", "--mount", *bootstrap_command(self.suite, part, self.mirror)],
            within=BOOTSTRAP_SECONDS)
        if self.folder.exists():
            self.folder.rmdir()
        part.rename(self.folder)

    def take_sources(self, tree: pathlib.Path) -> str:
        """Puts the tree's last commit into /src; objects of an earlier build there stay."""
        sources = self.folder / "src"
        if not (sources / ".git").exists():
            run(["git", "clone", "-q", "--no-checkout", tree, sources], within=300)
        run(["git", "-C", sources, "fetch", "-q", tree, "HEAD"], within=300)
        run(["git", "-C", sources, "checkout", "-q", "--force", "--detach", "FETCH_HEAD"],
            within=300)
        return run(["git", "-C", sources, "rev-parse", "--short=12", "HEAD"]).stdout.strip()

    def take_apt_settings(self) -> None:
        """Hands on how this machine reaches its mirrors, and whether it takes old indexes."""
        if not shutil.which("apt-config"):
            return
        shown = run(["apt-config", "dump", "Acquire"]).stdout
        kept = re.findall(r"^Acquire::(?:https?::Proxy|Check-)\S* .*;$", shown, re.MULTILINE)
        (self.folder / "etc/apt/apt.conf.d/90outside").write_text("\n".join([*kept, ""]))

    def take_authorities(self) -> None:
        """Hands on which certificates this machine trusts: a mirror or a proxy may have its own."""
        if not AUTHORITIES.exists():
            return
        inside = self.folder / AUTHORITIES_INSIDE.lstrip("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(AUTHORITIES, inside)

    def name_localhost(self) -> None:
        """What an installer does and debootstrap of Debian 12 leaves out."""
        hosts = self.folder / "etc/hosts"
        if not hosts.exists():
            hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")

    def command(self, words: Sequence[Word]) -> list[str]:
        """The command line that runs `words` inside."""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", ENTER,
                "enter", str(self.folder), *map(str, words)]

    def run(self, words: Sequence[Word], environment: Mapping[str, str], within: float,
            output: IO[str] | None = None) -> int:
        """Runs a command inside with nothing but this environment; its status.

        `output` takes its stdout (None: this process's); stderr is this process's. CommandFailed
        when it has not ended after `within` seconds; then it is killed.
        """
        shutil.copyfile("/etc/resolv.conf", self.folder / "etc/resolv.conf")
        process = subprocess.Popen(self.command(words), env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, start_new_session=True)
        try:
            return process.wait(within)
        except subprocess.TimeoutExpired:
            command = " ".join(map(str, words))
            raise CommandFailed(f"{command}: no end within {within:g} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
