"""A release into a registry on this machine, its installation without a checkout, and attempts to
pass off something else for it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import re
import select
import subprocess
import time
from collections.abc import Callable, Iterator

import publication
import signing
import verification
from builder import Builder
from oci_layout import Image, Layout, layer_with_folder
from plan import Plan, Registry, ReleaseError
from programs import Programs

_START_SECONDS = 120
_SECRET = "dslide-rehearsal"


@contextlib.contextmanager
def served_registry(crane: pathlib.Path, folder: pathlib.Path) -> Iterator[str]:
    """HOST:PORT of a registry that keeps its blobs in the folder."""
    folder.mkdir()
    process = subprocess.Popen(
        [crane, "registry", "serve", "--address", "127.0.0.1:0", "--disk", folder],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield f"127.0.0.1:{_port(process)}"
    finally:
        process.terminate()
        process.wait()


def _port(process: subprocess.Popen[bytes]) -> str:
    """What it says on stderr, which is read no further: it writes a line for each request only
    when asked to."""
    assert process.stderr
    said, end = b"", time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if select.select([process.stderr], [], [], 1)[0]:
            said += os.read(process.stderr.fileno(), 4096)
            found = re.search(rb"serving on port (\d+)|127\.0\.0\.1:(\d+)", said)
            if found:
                return (found[1] or found[2]).decode()
    raise ReleaseError(f"the local registry did not start: {said.decode(errors='replace')}")


def refused(what: str, attempt: Callable[[], object]) -> str:
    """What the attempt was refused with; ReleaseError when it was not."""
    try:
        attempt()
    except ReleaseError as error:
        said = str(error)
        publication.say(f"refused, as it must be: {what}")
        return said.strip().splitlines()[-1][:200]
    raise ReleaseError(f"NOT REFUSED: {what}")


def accepted_by_cosign(cosign: pathlib.Path, references: dict[str, str], public_key: pathlib.Path,
                       stranger: pathlib.Path) -> str:
    """Asks it about all that is signed, as docs/operate/deployment.md has users do."""
    def ask(key: pathlib.Path, *arguments: str) -> None:
        done = subprocess.run(
            [cosign, *arguments[:-1], "--key", key, "--insecure-ignore-tlog",
             "--allow-http-registry", arguments[-1]], capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise ReleaseError(f"cosign {' '.join(arguments)}: {done.stderr.strip()}")

    asked = 0
    for name, reference in references.items():
        ask(public_key, "verify", reference)
        kinds = publication.PREDICATES if name != publication.CHART else [publication.PROVENANCE]
        for kind in kinds:
            ask(public_key, "verify-attestation", "--type", kind, reference)
        asked += 1 + len(kinds)
        refused(f"cosign looks at {name} with another key",
                functools.partial(ask, stranger, "verify", reference))
    return f"{asked} signatures and statements"


def run_pulled(programs: Programs, image: str, folder: pathlib.Path) -> str:
    """What `dslide version` of the pulled image says, in its own root file system."""
    root, archive = folder / "pulled", folder / "pulled.tar"
    root.mkdir()
    programs.crane("export", image, archive)
    subprocess.run(["tar", "-x", "-C", root, "-f", archive], check=True)
    done = subprocess.run(["chroot", root, "/usr/bin/dslide", "version"], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"{image}: dslide version ended with {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()[0]


def _install_without_checkout(programs: Programs, plan: Plan, references: dict[str, str],
                              folder: pathlib.Path) -> None:
    """What docs/operate/deployment.md has a user do with a released version."""
    programs.helm("pull", f"{plan.registry.charts}/dslide", "--version", plan.version,
                  "--untar", "--untardir", folder)
    for values, name in (("laptop", "dslide-example"), ("spot", "dslide")):
        pulled = verification.images_of_chart(programs, plan.registry, plan.version,
                                              (str(folder / f"dslide/values/{values}.yaml"),))
        if pulled != [references[name]]:
            raise ReleaseError(f"values/{values}.yaml pulls {pulled}, not {references[name]}")


def _stranger(home: pathlib.Path) -> pathlib.Path:
    """A public key that nothing is signed with."""
    key = home / "stranger.key"
    if not key.exists():
        signing.make_key(key)
        key.with_suffix(".pub").write_bytes(signing.public_key(key))
    return key.with_suffix(".pub")


def _other_image(plan: Plan, folder: pathlib.Path) -> Layout:
    """As somebody else would make it."""
    other = Layout(folder)
    other.write(Image("amd64", plan.time, {},
                      [layer_with_folder("other", 0, 0o755)]))
    return other


def _tamper(plan: Plan, made: publication.Made, programs: Programs, key: pathlib.Path,
            home: pathlib.Path) -> dict[str, str]:
    """What each attempt was refused with."""
    registry, public_key = plan.registry, made.output / publication.PUBLIC_KEY

    def verify(by: pathlib.Path = public_key) -> object:
        return verification.verify(programs, registry, plan.version, by)

    found = {"another key": refused("signatures looked at with another key",
                                    lambda: verify(_stranger(home)))}
    sums = made.output / publication.SUMS
    signed = sums.read_bytes()
    sums.write_bytes(signed.replace(b"provenance", b"Provenance"))
    found["changed sums"] = refused("a changed list of files", lambda: verification.verify_files(
        made.output, public_key))
    sums.write_bytes(signed)
    kept = made.chart.read_bytes()
    made.chart.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    found["changed file"] = refused("a changed file", lambda: verification.verify_files(
        made.output, public_key))
    made.chart.write_bytes(kept)
    other = _other_image(plan, home / "other")
    found["other content under a version"] = refused(
        "a release of other content under the same version",
        lambda: publication.publish(plan, publication.Made(
            {**made.images, "dslide": other}, made.chart, made.output), programs, key))
    programs.crane("push", other.folder, registry.reference("dslide", plan.version))
    found["unsigned image"] = refused(
        "an image that nobody signed, pushed under the version", verify)
    programs.crane("push", made.images["dslide"].folder,
                   registry.reference("dslide", plan.version))
    verify()
    blob = made.images["dslide"].manifests[0]["digest"]
    layers = json.loads(made.images["dslide"].blob(blob).read_text())["layers"]
    stored = next((home / "registry").rglob(layers[-1]["digest"].partition(":")[2]))
    stored.write_bytes(b"damaged")
    found["damaged blob"] = refused("a blob that was changed in the registry", verify)
    return found


def rehearse(helm: pathlib.Path, crane: pathlib.Path, cosign: pathlib.Path | None,
             builder: Builder, home: pathlib.Path) -> dict[str, str]:
    """{what: how it went}. cosign: None where it was not built."""
    began = time.monotonic()
    os.environ[signing.PASSWORD] = _SECRET
    with served_registry(crane, home / "registry") as host:
        plan = Plan.of_checkout(Registry.parse(f"{host}/rehearsal"), home / "release")
        programs = Programs(home, helm, crane, plan.registry)
        key = home / "release.key"
        signing.make_key(key)
        made = publication.make(plan, builder, programs, (), clients=False)
        publication.publish(plan, made, programs, key)
        # Cut off and begun anew, it ends as it would have.
        references = publication.publish(plan, made, programs, key)
        public_key = made.output / publication.PUBLIC_KEY
        if verification.verify(programs, plan.registry, plan.version, public_key) != references:
            raise ReleaseError("what is verified is not what was published")
        files = verification.verify_files(made.output, public_key)
        accepted = "not asked: it was not built"
        if cosign is not None:
            accepted = accepted_by_cosign(cosign, references, public_key, _stranger(home))
        (home / "user").mkdir()
        _install_without_checkout(programs, plan, references, home / "user")
        said = "not run: root alone may"
        if os.geteuid() == 0:
            said = run_pulled(programs, references["dslide"], home)
        found = _tamper(plan, made, programs, key, home)
    return {**references, "files": str(files), "accepted by cosign": accepted,
            "the pulled image says": said,
            **{f"refused: {what}": why for what, why in found.items()},
            "seconds": str(round(time.monotonic() - began, 1))}
