"""Builds the image and looks at what came out of it."""

import io
import json
import os
import pathlib
import subprocess
import tarfile
import time
from typing import Any

import base_image
from engine import ROOT, Engine, check, note, run, say
from processes import look_at, wait_until

BUILD_SECONDS = 7200
# By --grpc: Debian's suite and the addition to the name of the image.
BASES = {"experimental": ("trixie", ""), "debian": ("bookworm", "-grpc-debian")}
STARTS = 5
USER = "10001:10001"
LOCKED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true")
SHELLS = ("/bin/sh", "/bin/bash", "/bin/dash", "/usr/bin/busybox", "/usr/bin/apt", "/usr/bin/dpkg")
SBOM = "usr/share/dslide/sbom.spdx.json"
# Places at which a process can be made to die are for tests alone.
FAILPOINT_MARK = b"dslide-failpoint:"


def revision() -> str:
    return run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"],
               accept=(0, 128)).stdout.strip() or "unknown"


def build(engine: Engine, directory: pathlib.Path, programs: str,
          grpc: str) -> tuple[str, str, float]:
    """Builds both targets; (image, example image, seconds)."""
    suite, addition = BASES[grpc]
    base = base_image.provide(engine, suite, directory)
    begun = time.monotonic()
    tag = (ROOT / "VERSION").read_text(encoding="ascii").strip() + addition
    names = {"dslide": f"dslide:{tag}", "example": f"dslide-example:{tag}"}
    for target, name in names.items():
        say(f"Building {name} ({programs} programs)")
        # The host's network: a private engine may have no way out of its own.
        engine.docker("build", "--network", "host", "-f", ROOT / "deploy/image/Dockerfile",
                      "--target", target, "--build-arg", f"PROGRAMS={programs}",
                      "--build-arg", f"DEBIAN_IMAGE={base}", "--build-arg", f"GRPC={grpc}",
                      "--build-arg", f"JOBS={os.environ.get('DSLIDE_JOBS', '')}",
                      "--build-arg", f"REVISION={revision()}", "-t", name, ROOT,
                      within=BUILD_SECONDS)
    return names["dslide"], names["example"], time.monotonic() - begun


def check_configuration(engine: Engine, image: str) -> None:
    config = engine.inspect(image)["Config"]
    check(config["User"] == USER, f"{image} runs as {config['User']!r}, not as {USER}")
    check(config["Entrypoint"] == ["/usr/bin/dslide"],
          f"{image}: entrypoint is {config['Entrypoint']}")
    labels = config["Labels"] or {}
    for label in ("title", "description", "licenses", "version", "revision"):
        check(labels.get(f"org.opencontainers.image.{label}"), f"{image} has no label {label}")
    check(not config.get("Volumes"), f"{image} declares volumes: {config.get('Volumes')}")


def files(engine: Engine, image: str) -> tarfile.TarFile:
    """The image's file system as an open tar archive."""
    container = engine.output("create", image)
    try:
        # Binary: not through the text of run().
        done = subprocess.run(["docker", "export", container], capture_output=True, check=True,
                              env=os.environ | engine.environment, timeout=120)
    finally:
        engine.docker("rm", container)
    return tarfile.open(fileobj=io.BytesIO(done.stdout))


def content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""


def check_contents(engine: Engine, image: str) -> int:
    """No shell, a complete bill of materials; the number of packages in it."""
    with files(engine, image) as archive:
        members = {member.name.removeprefix("./"): member for member in archive.getmembers()}
        found = [shell for shell in SHELLS if shell.lstrip("/") in members]
        check(not found, f"{image} contains {found}")
        privileged = [name for name, member in members.items()
                      if member.isfile() and member.mode & 0o6000]
        check(not privileged, f"{image}: set-user-id files {privileged}")
        state = members["var/lib/dslide"]
        check((state.uid, state.gid) == (10001, 10001),
              f"{image}: /var/lib/dslide belongs to {state.uid}:{state.gid}")
        for name, member in members.items():
            if name.startswith("usr/bin/dslide") and member.isfile():
                check(FAILPOINT_MARK not in content(archive, member),
                      f"{image}: {name} has failpoints (core/system/failpoint.h)")
        listed = json.loads(content(archive, members[SBOM]))
    names = {package["name"] for package in listed["packages"]}
    recorded = {name.rpartition("/")[2] for name, member in members.items()
                if name.startswith("var/lib/dpkg/status.d/") and member.isfile()}
    check(recorded and recorded <= names, f"not in the SBOM: {sorted(recorded - names)}")
    check(all(f"usr/share/doc/{name}/copyright" in members for name in recorded | {"dslide"}),
          f"{image}: a licence is missing")
    return len(names)


def check_restrictions(engine: Engine, image: str) -> str:
    """Runs without root, without a writable root, capabilities and network."""
    shown = engine.output("run", "--rm", "--network", "none", *LOCKED, image, "version")
    check(shown.startswith("dslide "), f"{image}: version says {shown!r}")
    refused = engine.docker("run", "--rm", "--entrypoint", "/bin/sh", image, "-c", "true",
                            accept=tuple(range(256)))
    check(refused.returncode == 127,
          f"{image}: /bin/sh ended with {refused.returncode}: {refused.stderr}")
    return shown


def start_seconds(engine: Engine, image: str) -> float:
    """From `docker run` to a shard that is ready, the median of several starts."""
    taken = []
    for _ in range(STARTS):
        begun = time.monotonic()
        container = engine.output(
            "run", "-d", *LOCKED, "--tmpfs", "/tmp", "-v", "/var/lib/dslide",
            "--entrypoint", "/usr/bin/dslide-shard", image, "--coordinator", "", "--insecure",
            "--listen", "0.0.0.0:7010", "--admin", "0.0.0.0:7011", "--data-dir", "/var/lib/dslide")
        try:
            page = f"{engine.address(container)}:7011"
            wait_until(lambda: look_at(page, "/readyz")[0] == 200, lambda: (
                f"a shard of {image} at {page}: " + engine.docker("logs", container).stderr))
            taken.append(time.monotonic() - begun)
        finally:
            engine.docker("rm", "-f", "-v", container)
    return sorted(taken)[len(taken) // 2]


def check_image(engine: Engine, image: str) -> dict[str, Any]:
    """Figures of an image that is there."""
    say(f"Checking {image}")
    check_configuration(engine, image)
    found = {
        "image_bytes": engine.inspect(image)["Size"],
        "sbom_packages": check_contents(engine, image),
        "image_version": check_restrictions(engine, image),
        "start_seconds": round(start_seconds(engine, image), 2),
    }
    note(f"{found['image_bytes'] / 1e6:.1f} MB, {found['sbom_packages']} packages in the SBOM, "
         f"a shard is ready {found['start_seconds']} s after docker run")
    return found
