"""The Dockerfile, and the scripts that make the root file system and its bill of materials."""

import contextlib
import hashlib
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

import cases

sys.path.insert(0, str(cases.DEPLOY / "image"))
import rootfs  # noqa: E402
import sbom  # noqa: E402

DOCKERFILE = cases.read("deploy/image/Dockerfile")
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


class DockerfileTest(unittest.TestCase):
    def stages(self):
        """{name: text} of the stages."""
        parts = re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)[1:]
        return {re.match(r"FROM \S+ AS (\S+)", part).group(1): part for part in parts}

    def test_what_is_shipped_has_no_shell(self):
        shipped = self.stages()["runtime"]
        self.assertTrue(shipped.startswith("FROM scratch "))
        self.assertNotRegex(shipped, r"(?m)^(RUN|VOLUME|ADD|SHELL|HEALTHCHECK) ")
        self.assertRegex(shipped, r'(?m)^ENTRYPOINT \["/usr/bin/dslide"\]$')
        self.assertRegex(shipped, rf"(?m)^USER {cases.USER}$")

    def test_the_default_target_is_the_plain_image(self):
        self.assertEqual(list(self.stages())[-1], "dslide")

    def test_the_labels_and_the_version(self):
        for label in ("title", "description", "licenses", "version", "revision", "source"):
            self.assertIn(f"org.opencontainers.image.{label}=", DOCKERFILE)
        self.assertEqual(set(re.findall(r"^ARG VERSION=(\S+)", DOCKERFILE, re.MULTILINE)),
                         {cases.project_version()})

    def test_base_image_is_pinned_to_a_release(self):
        self.assertRegex(DOCKERFILE, r"(?m)^ARG DEBIAN_IMAGE=debian:bookworm-slim$")
        self.assertNotRegex(DOCKERFILE, r":latest\b")
        self.assertNotIn("syntax=", DOCKERFILE)

    def test_packages_are_those_that_the_build_installs(self):
        """Tests, version control and the compiler cache's like apart."""
        lists = cases.read("tools/common/package_lists.sh")
        wanted = re.search(r"^readonly BUILD_PACKAGES=\((.*?)\)", lists,
                           re.MULTILINE | re.DOTALL).group(1).split()
        listed = re.search(r"--no-install-recommends \\\n(.*?)\n\n",
                           self.stages()["toolchain"], re.DOTALL).group(1)
        missing = set(wanted) - set(listed.replace("\\", " ").split())
        self.assertEqual(missing, {"git", "mold", "libgtest-dev", "libgmock-dev", "libbenchmark-dev"})

    def test_the_development_container_is_what_compiles(self):
        settings = json.loads(cases.read(".devcontainer/devcontainer.json"))
        build, folder = settings["build"], cases.ROOT / ".devcontainer"
        self.assertEqual((folder / build["dockerfile"]).resolve(),
                         cases.DEPLOY / "image" / "Dockerfile")
        self.assertEqual((folder / build["context"]).resolve(), cases.ROOT)
        self.assertIn(build["target"], self.stages())
        task = settings["postCreateCommand"].removeprefix("./run ")
        self.assertTrue((cases.ROOT / "tools" / task / "task.sh").is_file())

    def test_what_the_programs_load_is_of_the_gRPC_that_was_chosen(self):
        stages = self.stages()
        for programs in ("programs-compiled", "programs-prebuilt"):
            self.assertTrue(stages[programs].startswith("FROM grpc-${GRPC} "), programs)
        for grpc in ("debian", "experimental", "source"):
            self.assertIn(f"grpc-{grpc}", stages)

    def test_the_context_holds_what_is_copied(self):
        allowed = {line[1:] for line in cases.read(".dockerignore").splitlines()
                   if line.startswith("!")}
        for sources in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.*) \S+$", DOCKERFILE, re.MULTILINE):
            for source in sources.split():
                self.assertTrue(any(source == path or source.startswith(path + "/")
                                    for path in allowed), f"{source} is not in .dockerignore")


class RootfsTest(unittest.TestCase):
    def test_libraries_of_ldd(self):
        shown = ("\tlinux-vdso.so.1 (0x00007f)\n"
                 "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007e)\n"
                 "\t/lib64/ld-linux-x86-64.so.2 (0x00007d)\n")
        self.assertEqual(rootfs.libraries(shown),
                         ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"])

    def test_a_missing_library_is_named(self):
        with self.assertRaisesRegex(ValueError, r"libgone\.so\.1"):
            rootfs.libraries("\tlibgone.so.1 => not found\n")

    def test_accounts(self):
        self.assertIn(f":{cases.USER}:", rootfs.ACCOUNTS["etc/passwd"])

    def test_owner_of_a_library(self):
        if not pathlib.Path("/usr/bin/dpkg-query").exists():
            self.skipTest("no dpkg here")
        self.assertEqual(rootfs.owner("/lib64/ld-linux-x86-64.so.2"), "libc6")

    def test_a_layout_is_not_mixed_with_another(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(sys, "argv", ["rootfs.py", "--output", folder, "--license", "x",
                                                "y"]):
            with self.assertRaisesRegex(SystemExit, "exists"):
                rootfs.main()


class SbomTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in {"etc/os-release": 'NAME="Debian"\nVERSION_ID="12"\n',
                           "var/lib/dpkg/status.d/libexample1": STATUS,
                           "usr/bin/dslide": "program", "usr/bin/dslide-shard": "shard",
                           "components/grpc": "grpc 1.99.0\n"}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="ascii")

    def make(self):
        target = self.root / "sbom.json"
        arguments = ["sbom.py", "--root", self.root, "--version", "0.1.0", "--revision", "abc",
                     "--components", self.root / "components", "--created",
                     "2026-01-31T01:00:00+01:00", "--output", target]
        with mock.patch.object(sys, "argv", [str(word) for word in arguments]), \
                contextlib.redirect_stdout(io.StringIO()):
            sbom.main()
        return target.read_text(encoding="utf-8")

    def test_packages(self):
        made = json.loads(self.make())
        packages = {package["name"]: package for package in made["packages"]}
        self.assertEqual(set(packages), {"dslide", "libexample1", "grpc"})
        example = packages["libexample1"]
        self.assertEqual(example["versionInfo"], "1:1.2-3+b1")
        self.assertEqual(example["externalRefs"][0]["referenceLocator"],
                         "pkg:deb/debian/libexample1@1%3A1.2-3%2Bb1?arch=amd64&distro=debian-12")
        self.assertEqual(packages["grpc"]["versionInfo"], "1.99.0")

    def test_the_form(self):
        """What SPDX 2.3 requires of a document, a package, a file and a relationship."""
        made = json.loads(self.make())
        self.assertEqual((made["spdxVersion"], made["dataLicense"], made["SPDXID"]),
                         ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertEqual(made["creationInfo"]["created"], "2026-01-31T00:00:00Z")
        ids = ["SPDXRef-DOCUMENT"]
        for part in made["packages"] + made["files"]:
            self.assertRegex(part["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            ids.append(part["SPDXID"])
        self.assertEqual(len(ids), len(set(ids)))
        for package in made["packages"]:
            self.assertTrue({"downloadLocation", "versionInfo"} <= set(package))
            self.assertEqual(package["filesAnalyzed"], "packageVerificationCode" in package)
        for relation in made["relationships"]:
            self.assertIn(relation["spdxElementId"], ids)
            self.assertIn(relation["relatedSpdxElement"], ids)
        related = {relation["relatedSpdxElement"] for relation in made["relationships"]}
        self.assertEqual(related, set(ids[1:]))

    def test_checksums(self):
        made = json.loads(self.make())
        sums = {file["fileName"]: file["checksums"] for file in made["files"]}
        self.assertEqual(sums["./usr/bin/dslide"][1]["checksumValue"],
                         hashlib.sha256(b"program").hexdigest())
        joined = "".join(sorted(hashlib.sha1(text).hexdigest() for text in (b"program", b"shard")))
        self.assertEqual(made["packages"][0]["packageVerificationCode"],
                         {"packageVerificationCodeValue": hashlib.sha1(joined.encode()).hexdigest()})

    def test_equal_inputs_make_equal_bytes(self):
        self.assertEqual(self.make(), self.make())


if __name__ == "__main__":
    cases.main()
