"""A root of another Debian release in which this project is built.

    root = DebianRoot("trixie", build_root.place("trixie", "experimental"))
    revision = build_root.prepare(root, "experimental")
    status = root.run(["/src/run", "build"], build_root.environment(), within=7200)
"""

import os
import pathlib
import sys

from debian_root import AUTHORITIES, AUTHORITIES_INSIDE, DebianRoot
from engine import ROOT, CommandFailed, note, run, say
from python_package import cache_folder

# debian: the release's own gRPC. experimental: the one of deploy/image/newer-grpc.versions.
GRPC = ("debian", "experimental")
SETUP_SECONDS = 1800
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Handed on: how to reach the network, and how much to do at once.
KEPT = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
        "DSLIDE_JOBS", "CCACHE_MAXSIZE")


def environment() -> dict[str, str]:
    """What commands inside see; their home, and so their compiler cache, is the root's own."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    if AUTHORITIES.exists():
        kept.update(dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT"), AUTHORITIES_INSIDE))
    return {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
            **kept}


def place(suite: str, grpc: str) -> pathlib.Path:
    """A root for each kind of host, beside the project's other caches."""
    name = suite if grpc == "debian" else f"{suite}-grpc-{grpc}"
    return cache_folder("hosts") / name


def run_inside(root: DebianRoot, *command: str) -> None:
    """CommandFailed unless it ends with 0; what it says goes to stderr."""
    status = root.run(command, environment(), SETUP_SECONDS, sys.stderr)
    if status != 0:
        raise CommandFailed(f"{command[0]} ended with {status} in {root.folder}; its messages are "
                            "above")


def prepare(root: DebianRoot, grpc: str) -> str:
    """Makes the root, puts this tree's last commit into /src, and takes the gRPC; the commit."""
    say(f"Preparing {root.suite} in {root.folder}")
    root.lock()
    root.make()
    root.take_apt_settings()
    root.take_authorities()
    root.name_localhost()
    if run(["git", "-C", ROOT, "status", "--porcelain"]).stdout.strip():
        note("the tree has changes that are not committed: they are left out")
    revision = root.take_sources(ROOT)
    if grpc == "experimental":
        run_inside(root, "/src/deploy/image/newer-grpc.sh", root.mirror)
    return revision
