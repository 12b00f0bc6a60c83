"""The Dockerfile, and the scripts that make the root file system and its bill of materials."""

import hashlib
import json
import pathlib
import re
import sys
from typing import Any

import cases
import image_check
import pytest
import rootfs
import sbom

DOCKERFILE = cases.read("deploy/image/Dockerfile")
# {name: text} of its stages.
STAGES = {cases.find(r"^FROM \S+ AS (\S+)", part): part
          for part in re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)[1:]}
STATUS = """\
Package: libexample1
Status: install ok installed
Maintainer: Some One <one@example.org>
Architecture: amd64
Source: example (1.2)
Version: 1:1.2-3+b1
Description: an example
 Version: not this
"""


def test_what_is_shipped_has_no_shell() -> None:
    shipped = STAGES["runtime"]
    assert shipped.startswith("FROM scratch ")
    assert not re.search(r"(?m)^(RUN|VOLUME|ADD|SHELL|HEALTHCHECK) ", shipped)
    assert '\nENTRYPOINT ["/usr/bin/dslide"]\n' in shipped
    assert f"\nUSER {cases.USER}\n" in shipped


def test_the_default_target_is_the_plain_image() -> None:
    assert list(STAGES)[-1] == "dslide"


def test_the_labels_and_the_version() -> None:
    for label in ("title", "description", "licenses", "version", "revision", "source"):
        assert f"org.opencontainers.image.{label}=" in DOCKERFILE
    versions = re.findall(r"^ARG VERSION=(\S+)", DOCKERFILE, re.MULTILINE)
    assert set(versions) == {cases.project_version()}


def test_base_image_is_pinned_to_a_release() -> None:
    assert "\nARG DEBIAN_IMAGE=debian:trixie-slim\n" in DOCKERFILE
    assert not re.search(r":latest\b|syntax=", DOCKERFILE)


def test_the_defaults_are_those_of_what_builds_images() -> None:
    """The newer gRPC, on a release that it is made for; prebuilt programs say otherwise."""
    assert "\nARG GRPC=experimental\n" in DOCKERFILE
    assert image_check.BASES["experimental"] == ("trixie", "")
    prebuilt = cases.find(r"PROGRAMS=prebuilt(.*?)\)", cases.read("tools/image/task.sh"))
    for argument in ("GRPC=debian", f"DEBIAN_IMAGE=debian:{image_check.BASES['debian'][0]}-slim"):
        assert argument in prebuilt


def test_packages_are_those_that_the_build_installs() -> None:
    """Tests, version control and the compiler cache's like apart."""
    wanted = cases.find(r"^readonly BUILD_PACKAGES=\((.*?)\)",
                        cases.read("tools/common/package_lists.sh")).split()
    listed = cases.find(r"--no-install-recommends \\\n(.*?)\n\n", STAGES["toolchain"])
    missing = set(wanted) - set(listed.replace("\\", " ").split())
    assert missing == {"git", "mold", "libgtest-dev", "libgmock-dev", "libbenchmark-dev"}


def test_the_development_container_is_what_compiles() -> None:
    settings = json.loads(cases.read(".devcontainer/devcontainer.json"))
    build, folder = settings["build"], cases.ROOT / ".devcontainer"
    assert (folder / build["dockerfile"]).resolve() == cases.DEPLOY / "image" / "Dockerfile"
    assert (folder / build["context"]).resolve() == cases.ROOT
    assert build["target"] in STAGES
    # The formatter and the sanitizers are looked for as this release has them.
    assert build["args"] == {"DEBIAN_IMAGE": "debian:bookworm-slim"}
    task = settings["postCreateCommand"].removeprefix("./run ")
    assert (cases.ROOT / "tools" / task / "task.sh").is_file()


def test_what_the_programs_load_is_of_the_gRPC_that_was_chosen() -> None:
    for programs in ("programs-compiled", "programs-prebuilt"):
        assert STAGES[programs].startswith("FROM grpc-${GRPC} "), programs
    assert {"grpc-debian", "grpc-experimental", "grpc-source"} <= set(STAGES)


def test_the_context_holds_what_is_copied() -> None:
    allowed = [line[1:] for line in cases.read(".dockerignore").splitlines() if line[:1] == "!"]
    for sources in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.*) \S+$", DOCKERFILE, re.MULTILINE):
        for source in sources.split():
            assert any(f"{source}/".startswith(f"{path}/") for path in allowed), source


def test_libraries_of_ldd() -> None:
    shown = ("\tlinux-vdso.so.1 (0x00007f)\n"
             "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007e)\n"
             "\t/lib64/ld-linux-x86-64.so.2 (0x00007d)\n")
    assert rootfs.libraries(shown) == [
        "/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]
    with pytest.raises(ValueError, match=r"libgone\.so\.1"):
        rootfs.libraries("\tlibgone.so.1 => not found\n")


def test_accounts() -> None:
    assert f":{cases.USER}:" in rootfs.ACCOUNTS["etc/passwd"]


@pytest.mark.skipif(not pathlib.Path("/usr/bin/dpkg-query").exists(), reason="no dpkg here")
def test_owners_of_libraries() -> None:
    loader = "/lib64/ld-linux-x86-64.so.2"
    assert rootfs.owners([loader, "/usr/bin/dpkg"]) == {loader: "libc6", "/usr/bin/dpkg": "dpkg"}
    with pytest.raises(SystemExit, match="no package owns /nobodys"):
        rootfs.owners([loader, "/nobodys"])


def test_a_layout_is_not_mixed_with_another(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["rootfs.py", "--output", str(tmp_path), "--license", "x", "y"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match="exists"):
        rootfs.main()


@pytest.fixture
def bill(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The bill of materials of a small root, made twice with equal bytes."""
    for name, text in {"etc/os-release": 'NAME="Debian"\nVERSION_ID="12"\n',
                       "var/lib/dpkg/status.d/libexample1": STATUS,
                       "usr/bin/dslide": "program", "usr/bin/dslide-shard": "shard",
                       "components/grpc": "grpc 1.99.0\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="ascii")
    target = tmp_path / "sbom.json"
    words = ["sbom.py", "--root", tmp_path, "--version", "0.1.0", "--revision", "abc",
             "--components", tmp_path / "components", "--created", "2026-01-31T01:00:00+01:00",
             "--output", target]
    monkeypatch.setattr(sys, "argv", list(map(str, words)))
    texts = []
    for _ in range(2):
        sbom.main()
        texts.append(target.read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    return json.loads(texts[0])


def test_packages(bill: Any) -> None:
    packages = {package["name"]: package for package in bill["packages"]}
    assert set(packages) == {"dslide", "libexample1", "grpc"}
    example = packages["libexample1"]
    assert example["versionInfo"] == "1:1.2-3+b1"
    assert example["externalRefs"][0]["referenceLocator"] == (
        "pkg:deb/debian/libexample1@1%3A1.2-3%2Bb1?arch=amd64&distro=debian-12")
    assert packages["grpc"]["versionInfo"] == "1.99.0"


def test_the_form(bill: Any) -> None:
    """What SPDX 2.3 requires of a document, a package, a file and a relationship."""
    assert (bill["spdxVersion"], bill["dataLicense"], bill["SPDXID"]) == (
        "SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT")
    assert bill["creationInfo"]["created"] == "2026-01-31T00:00:00Z"
    ids = [part["SPDXID"] for part in bill["packages"] + bill["files"]]
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in ids)
    assert len(ids) == len(set(ids))
    for package in bill["packages"]:
        assert {"downloadLocation", "versionInfo"} <= set(package)
        assert package["filesAnalyzed"] == ("packageVerificationCode" in package)
    assert ({relation["spdxElementId"] for relation in bill["relationships"]}
            <= {"SPDXRef-DOCUMENT", *ids})
    assert {relation["relatedSpdxElement"] for relation in bill["relationships"]} == set(ids)


def test_checksums(bill: Any) -> None:
    sums = {file["fileName"]: file["checksums"] for file in bill["files"]}
    assert sums["./usr/bin/dslide"][1]["checksumValue"] == hashlib.sha256(b"program").hexdigest()
    joined = "".join(sorted(hashlib.sha1(text).hexdigest() for text in (b"program", b"shard")))
    assert bill["packages"][0]["packageVerificationCode"] == {
        "packageVerificationCodeValue": hashlib.sha1(joined.encode()).hexdigest()}
