"""What a release is made of: layouts, values that name them, signatures, statements."""

import json
import pathlib
import re
from typing import Any
from unittest import mock

import builder
import chart_package
import image_tree
import pytest
import release_images
import signing
import statements
from engine import Unavailable
from oci_layout import Artifact, Image, Layout, layer_with_folder
from plan import ROOT, Plan, Registry, ReleaseError

REGISTRY = Registry.parse("registry.example.com:5000/ml")


def image(architecture: str = "amd64", name: str = "one") -> Image:
    return Image(architecture, "2026-01-01T00:00:00Z", {}, [layer_with_folder(name, 0, 0o755)])


def layout(folder: pathlib.Path, *images: Image) -> Layout:
    made = Layout(folder)
    made.write(images[0])
    for number, other in enumerate(images[1:]):
        more = Layout(folder.with_name(f"{folder.name}-{number}"))
        more.write(other)
        made.join(more)
    return made


@pytest.fixture
def plan(tmp_path: pathlib.Path) -> Plan:
    return Plan.of_checkout(REGISTRY, tmp_path / "release")


@pytest.mark.parametrize("text", ["registry.example.com", "a.b/", "a.b/Upper", "https://a.b/c"])
def test_a_registry_that_is_none_is_refused_with_what_it_should_be(text: str) -> None:
    with pytest.raises(ReleaseError, match="want HOST.*/PREFIX"):
        Registry.parse(text)


def test_only_this_machine_is_spoken_to_without_tls() -> None:
    assert not REGISTRY.is_plain
    assert Registry.parse("127.0.0.1:5000/a").is_plain
    assert not Registry.parse("127.0.0.1.example.com/a").is_plain


def test_equal_files_make_equal_digests_and_others_make_others(tmp_path: pathlib.Path) -> None:
    one, same, other = (layout(tmp_path / name, image(name=name[:1])) for name in ("a", "ab", "b"))
    assert one.digest == same.digest
    assert one.digest != other.digest
    manifest = json.loads(one.blob(one.digest).read_text())
    assert one.blob(manifest["layers"][0]["digest"]).exists()


def test_images_of_two_architectures_are_one_index(tmp_path: pathlib.Path) -> None:
    both = layout(tmp_path / "both", image("arm64"), image("amd64"))
    assert both.architectures == ["amd64", "arm64"]
    assert both.digest not in [one["digest"] for one in both.manifests]
    with pytest.raises(ValueError, match="holds an image for amd64"):
        both.join(layout(tmp_path / "amd64", image("amd64")))


def test_a_damaged_layout_of_another_machine_is_refused(tmp_path: pathlib.Path) -> None:
    other = layout(tmp_path / "other", image("arm64"))
    other.blob(other.digest).write_text("{}")
    with pytest.raises(ValueError, match="is damaged"):
        layout(tmp_path / "own", image()).join(other)


def test_the_chart_names_every_image_by_digest(plan: Plan, tmp_path: pathlib.Path) -> None:
    images = {"dslide": layout(tmp_path / "a", image()),
              "dslide-example": layout(tmp_path / "b", image(name="two"))}
    text = (chart_package.CHART / "values.yaml").read_text()
    stamped = chart_package.stamp(text, plan, images, default=True)
    assert '\n  registry: "registry.example.com:5000"\n' in stamped
    assert '\n  repository: "ml/dslide"\n' in stamped
    assert f'\n  digest: "{images["dslide"].digest}"\n' in stamped
    assert len(stamped.splitlines()) == len(text.splitlines())
    laptop = chart_package.stamp((chart_package.CHART / "values/laptop.yaml").read_text(), plan,
                                 images, default=False)
    assert f'  repository: "ml/dslide-example"\n  digest: "{images["dslide-example"].digest}"\n' \
        in laptop
    spot = (chart_package.CHART / "values/spot.yaml").read_text()
    assert chart_package.stamp(spot, plan, images, default=False) == spot
    with pytest.raises(ReleaseError, match="name the image other"):
        chart_package.stamp("image:\n  repository: other\n", plan, images, default=False)


def test_pods_go_to_the_only_architecture_or_to_any(plan: Plan, tmp_path: pathlib.Path) -> None:
    text = (chart_package.CHART / "values.yaml").read_text()
    both = {"dslide": layout(tmp_path / "a", image("arm64"), image("amd64"))}
    assert '\n  architecture: ""\n' in chart_package.stamp(text, plan, both, default=True)
    one = {"dslide": layout(tmp_path / "b", image("arm64"))}
    assert '\n  architecture: "arm64"\n' in chart_package.stamp(text, plan, one, default=True)


@pytest.fixture
def keys(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> tuple[pathlib.Path,
                                                                         pathlib.Path]:
    """A private key with a password, and the public one."""
    monkeypatch.setenv(signing.PASSWORD, "secret")
    key, public = tmp_path / "release.key", tmp_path / "release.pub"
    signing.make_key(key)
    public.write_bytes(signing.public_key(key))
    return key, public


SUBJECT = signing.Subject("registry.example.com/ml/dslide", f"sha256:{'1' * 64}")
OTHER = signing.Subject(SUBJECT.name, f"sha256:{'2' * 64}")


def test_keys_are_secret_and_never_overwritten(
        keys: tuple[pathlib.Path, pathlib.Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys[0].stat().st_mode & 0o077 == 0
    assert b"ENCRYPTED" in keys[0].read_bytes()
    with pytest.raises(ReleaseError, match="never overwritten"):
        signing.make_key(keys[0])
    monkeypatch.setenv(signing.PASSWORD, "guessed")
    with pytest.raises(ReleaseError, match="openssl pkey"):
        signing.public_key(keys[0])


def test_a_signature_is_of_one_digest_by_one_key(
        keys: tuple[pathlib.Path, pathlib.Path], tmp_path: pathlib.Path) -> None:
    key, public = keys
    signed = signing.signature_of(key, SUBJECT)
    signing.check_signature(public, SUBJECT, signed)
    with pytest.raises(ReleaseError, match="another digest"):
        signing.check_signature(public, OTHER, signed)
    changed = Artifact(signed.content.replace(b"1" * 64, b"2" * 64), signed.media_type,
                       signed.annotations)
    with pytest.raises(ReleaseError, match="not signed with the key"):
        signing.check_signature(public, OTHER, changed)
    signing.make_key(tmp_path / "stranger.key")
    stranger = tmp_path / "stranger.pub"
    stranger.write_bytes(signing.public_key(tmp_path / "stranger.key"))
    with pytest.raises(ReleaseError, match="not signed with the key"):
        signing.check_signature(stranger, SUBJECT, signed)


def test_a_statement_is_of_one_digest_and_cannot_be_changed(
        keys: tuple[pathlib.Path, pathlib.Path]) -> None:
    key, public = keys
    stated = signing.statement_of(key, SUBJECT, "kind", {"a": 1})
    assert signing.check_statement(public, SUBJECT, stated) == ("kind", {"a": 1})
    with pytest.raises(ReleaseError, match="another digest"):
        signing.check_statement(public, OTHER, stated)
    envelope = json.loads(stated.content)
    more = signing.statement_of(key, SUBJECT, "kind", {"a": 2})
    envelope["payload"] = json.loads(more.content)["payload"]
    changed = Artifact(json.dumps(envelope).encode(), stated.media_type, {})
    with pytest.raises(ReleaseError, match="not signed with the key"):
        signing.check_statement(public, SUBJECT, changed)


LISTED = json.loads(statements.VULNERABILITIES.read_text())
ID = r"CVE-20\d\d-\d{4,}"
JUSTIFICATIONS = {
    "component_not_present", "vulnerable_code_not_present", "vulnerable_code_not_in_execute_path",
    "vulnerable_code_cannot_be_controlled_by_adversary", "inline_mitigations_already_exist"}


def sbom(*packages: tuple[str, str]) -> dict[str, object]:
    return {"packages": [{"name": name, "externalRefs": [
        {"referenceLocator": f"pkg:deb/debian/{name}@{version}?arch=amd64"}]}
        for name, version in packages]}


def told_of(plan: Plan, folder: pathlib.Path, *packages: tuple[str, str]) -> dict[str, Any]:
    """{vulnerability: its statement}"""
    made = statements.vex(plan, sbom(*packages), {"dslide": layout(folder, image())})
    told = {entry["vulnerability"]["name"]: entry for entry in made["statements"]}
    assert len(told) == len(made["statements"])
    return told


def test_vulnerabilities_are_told_of_the_version_that_the_image_has(
        plan: Plan, tmp_path: pathlib.Path) -> None:
    old = told_of(plan, tmp_path / "a", ("libgrpc29", "1.51.1-3%2Bb1"))
    new = told_of(plan, tmp_path / "b", ("libgrpc56", "1.83.0-2%2Bb1"))
    assert old.keys() == new.keys()
    assert (old["CVE-2023-44487"]["status"], new["CVE-2023-44487"]["status"]) == (
        "affected", "fixed")
    product = new["CVE-2023-44487"]["products"][0]
    assert product["@id"].startswith("pkg:oci/dslide@sha256%3A")
    assert [item["@id"] for item in product["subcomponents"]] == [
        "pkg:deb/debian/libgrpc56@1.83.0-2%2Bb1?arch=amd64"]
    for other in ("1.83.1-1", "1.83.01-1", "1.84.0-1", "1.83-1"):
        assert not told_of(plan, tmp_path / other, ("libgrpc56", other))


def test_debians_gRPC_is_told_of_under_the_names_of_each_release(
        plan: Plan, tmp_path: pathlib.Path) -> None:
    for name in ("libgrpc++1.51", "libgrpc++1.51t64"):
        assert "CVE-2023-44487" in told_of(plan, tmp_path / name, (name, "1.51.1-3%2Bb1"))
    fixed = ("libabsl20220623", "20220623.1-1%2Bdeb12u2")
    assert "CVE-2025-0838" in told_of(plan, tmp_path / "fixed", fixed)
    assert not told_of(plan, tmp_path / "before", ("libabsl20220623", "20220623.1-1%2Bdeb12u1"))


def test_every_vulnerability_says_what_to_do_or_why_nothing() -> None:
    """As the specification of OpenVEX wants it."""
    seen = set()
    for entry in LISTED["statements"]:
        wanted = {"affected": "action_statement", "not_affected": "impact_statement",
                  "fixed": "status_notes", "under_investigation": "status_notes"}[entry["status"]]
        assert entry.get(wanted), entry["vulnerabilities"]
        if entry["status"] == "not_affected":
            assert entry["justification"] in JUSTIFICATIONS
        assert set(entry) <= {"components", "vulnerabilities", "status", "justification",
                              "action_statement", "impact_statement", "status_notes"}
        for name in entry["vulnerabilities"]:
            assert re.fullmatch(ID, name)
            for component in entry["components"]:
                # One status for a vulnerability of a component.
                assert (name, component) not in seen
                seen.add((name, component))
    assert {component for _, component in seen} == set(LISTED["components"])


def test_the_versions_that_are_told_of_are_those_that_the_image_takes() -> None:
    pinned = dict(line.split() for line in (
        ROOT / "deploy/image/newer-grpc.versions").read_text().splitlines() if line[:1] != "#")
    for name in ("grpc", "protobuf", "abseil"):
        component = LISTED["components"][name]
        for package in component["packages"]:
            assert pinned[package].rpartition("-")[0] == component["version"], package
    # Of the same component as Debian 12 and 13 have it.
    assert LISTED["components"]["grpc-debian"]["version"] == "1.51.1"


def test_the_provenance_names_the_commit_and_the_compiler(plan: Plan) -> None:
    stated = statements.provenance(plan, plan.created, pathlib.Path("/"))
    made = stated["buildDefinition"]["resolvedDependencies"]
    assert made[0]["digest"] == {"gitCommit": plan.revision}
    assert "g++" in statements.build_packages()


def test_programs_for_tests_are_no_release(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SystemExit, match="dslide is missing: ./run build makes it"):
        image_tree.strip_programs(tmp_path, tmp_path / "programs")
    for name in image_tree.PROGRAMS:
        (tmp_path / name).write_bytes(b"x dslide-failpoint:y")
    with pytest.raises(SystemExit, match="a build for tests"):
        image_tree.strip_programs(tmp_path, tmp_path / "programs")
    assert not (tmp_path / "programs").exists()


def test_programs_of_another_commit_are_refused(plan: Plan, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "dslide"
    for revision in (plan.revision[:12], "0" * 12):
        program.write_text(f"#!/bin/sh\necho 'dslide 0.2.0 (revision {revision})'\n")
        program.chmod(0o755)
        if revision == "0" * 12:
            with pytest.raises(ReleaseError, match="not of the commit .*: build them anew"):
                builder.Here(tmp_path).check(plan)
        else:
            builder.Here(tmp_path).check(plan)


def test_the_commit_is_compiled_with_the_gRPC_of_the_image(
        plan: Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = mock.Mock(folder=tmp_path, mirror="http://m/debian", **{"run.return_value": 0})
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    prepared = mock.Mock(return_value=plan.revision[:12])
    monkeypatch.setattr(builder, "require", lambda: None)
    monkeypatch.setattr("build_root.prepare", prepared)
    here = builder.InRoot(root)
    tree = here.make(plan, tmp_path / "unused")
    assert prepared.call_args.args == (root, "experimental")
    ran = [call.args[0] for call in root.run.call_args_list]
    assert ["/src/run", "build", *image_tree.PROGRAMS] in ran
    assert ran[-1][-2:] == ["--output", f"/{tree.relative_to(tmp_path)}"]
    assert plan.revision[:12] in ran[-1]
    # With the fixes of the day, however old the root is.
    assert (tmp_path / "etc/apt/sources.list.d/security.list").read_text() == (
        "deb http://m/debian-security trixie-security main\n")
    assert [words[1] for words in ran if words[0] == "apt-get"] == ["update", "upgrade", "install"]
    tree.mkdir(parents=True)
    here.free()
    assert not tree.exists()
    prepared.return_value = "0" * 12
    with pytest.raises(ReleaseError, match="begin anew"):
        here.make(plan, tmp_path)
    monkeypatch.setattr(builder, "require", mock.Mock(side_effect=Unavailable("no root")))
    with pytest.raises(ReleaseError, match="no root; or give --grpc debian"):
        here.make(plan, tmp_path)


def test_the_image_is_what_the_dockerfile_makes() -> None:
    text = (ROOT / "deploy/image/Dockerfile").read_text()
    assert f"ARG DEBIAN_IMAGE=debian:{builder.SUITE}-slim\nARG" in re.sub(r"\n#[^\n]*", "", text)
    assert f"\nARG GRPC={builder.GRPC}\n" in text
    assert "EXPOSE " + " ".join(map(str, release_images.PORTS)) in text
    assert f"--compiled-in {' '.join(image_tree.COMPILED_IN)}" in text
