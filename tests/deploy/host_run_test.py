"""The run on another host where it cannot run, what it does with the root, and what it reads."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import cases
import debian_root
import host_run
from engine import PATIENCE_SECONDS, CommandFailed, Unavailable, run

PROGRAM = pathlib.Path(__file__).with_name("host_run.py")


class WithoutRootTest(unittest.TestCase):
    def test_it_is_skipped_loudly(self):
        done = subprocess.run([sys.executable, PROGRAM, "-o", "json"], capture_output=True,
                              text=True, timeout=PATIENCE_SECONDS, env=os.environ | {"PATH": "/nonexistent"})
        self.assertEqual(done.returncode, cases.SKIPPED, done.stderr)
        self.assertIn("SKIPPED: debootstrap, unshare, chroot not installed", done.stderr)
        figures = json.loads(done.stdout.splitlines()[-1])
        self.assertFalse(figures["held"])
        self.assertIn("debootstrap", figures["unavailable"])

    def test_without_privileges_it_says_so(self):
        with mock.patch("shutil.which", return_value="/usr/bin/x"), \
                mock.patch("os.geteuid", return_value=1000), \
                self.assertRaisesRegex(Unavailable, "needs root"):
            debian_root.require()

    def test_wrong_use(self):
        for arguments, message in ((["--suite", "../x"], "give a name such as trixie"),
                                   (["--grpc", "mine"], "invalid choice")):
            done = subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True,
                                  text=True, timeout=PATIENCE_SECONDS)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)


class SettingsTest(unittest.TestCase):
    def test_each_kind_of_host_has_a_root_of_its_own(self):
        with mock.patch.dict(os.environ, {"DSLIDE_CACHE_DIR": "/cache"}):
            self.assertEqual(host_run.parse([]).root, pathlib.Path("/cache/hosts/trixie"))
            self.assertEqual(host_run.parse(["--grpc", "experimental"]).root,
                             pathlib.Path("/cache/hosts/trixie-grpc-experimental"))
        self.assertEqual(host_run.parse(["--root", "/r"]).root, pathlib.Path("/r"))

    def test_what_ctest_gets(self):
        self.assertEqual(host_run.parse(["--", "--only", "--grpc"]).arguments, ["--only", "--grpc"])
        self.assertEqual(host_run.parse([]).arguments, [])

    def test_the_root_sees_no_more_of_this_environment_than_it_needs(self):
        outside = {"SECRET": "x", "https_proxy": "http://p:1", "DSLIDE_JOBS": "3"}
        with mock.patch.dict(os.environ, outside):
            given = host_run.environment()
        self.assertEqual((given["HOME"], given["https_proxy"]), ("/root", "http://p:1"))
        self.assertEqual(given["DSLIDE_JOBS"], "3")
        self.assertNotIn("SECRET", given)

    def test_versions_are_those_of_the_library(self):
        for version, wanted in (("9.10.0-1+b1", "9.10.0"), ("4:14.2.0-1", "14.2.0"),
                                ("1.16+dfsg-2+deb13u1", "1.16"), ("", "")):
            self.assertEqual(host_run.upstream(version), wanted)

    def test_counts_are_those_of_the_last_line(self):
        text = "noise\n{\"passed\": 7, \"failed\": 1, \"skipped\": 2, \"seconds\": 3}\n"
        self.assertEqual(host_run.read_counts(text)["failed"], 1)
        with self.assertRaisesRegex(CommandFailed, "without its counts"):
            host_run.read_counts("run: it broke\n")


class RootTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_newer_suite_is_made_like_unstable(self):
        (self.folder / "bookworm").write_text("")
        known = debian_root.bootstrap_command("bookworm", "/r", "http://m", self.folder)
        self.assertEqual(known, ["debootstrap", "--variant=minbase", "bookworm", "/r", "http://m"])
        newer = debian_root.bootstrap_command("trixie", "/r", "http://m", self.folder)
        self.assertEqual(newer, [*known[:2], "trixie", *known[3:], str(self.folder / "sid")])

    def test_a_folder_of_something_else_is_left_alone(self):
        (self.folder / "mine").write_text("precious")
        with self.assertRaisesRegex(CommandFailed, "neither empty nor a Debian"):
            debian_root.DebianRoot("trixie", self.folder).make()
        self.assertEqual((self.folder / "mine").read_text(), "precious")

    def test_apt_inside_reaches_its_mirrors_as_apt_outside_does(self):
        settings = self.folder / "etc/apt/apt.conf.d"
        settings.mkdir(parents=True)
        shown = mock.Mock(stdout='Acquire::http::Proxy "http://p:1";\nAcquire::Retries "3";\n'
                                 'Acquire::Check-Date "false";\n')
        with mock.patch("debian_root.run", return_value=shown), \
                mock.patch("shutil.which", return_value="/usr/bin/apt-config"):
            debian_root.DebianRoot("trixie", self.folder).take_apt_settings()
        self.assertEqual((settings / "90outside").read_text(),
                         'Acquire::http::Proxy "http://p:1";\nAcquire::Check-Date "false";\n')

    def commit(self, tree, text):
        (tree / "file").write_text(text)
        run(["git", "-C", tree, "add", "file"])
        run(["git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", text])

    def test_the_last_commit_is_taken_and_what_was_built_stays(self):
        tree, root = self.folder / "tree", debian_root.DebianRoot("trixie", self.folder / "root")
        root.folder.mkdir()
        run(["git", "init", "-q", tree])
        self.commit(tree, "one")
        first = root.take_sources(tree)
        (root.folder / "src/build").mkdir()
        self.commit(tree, "two")
        (tree / "file").write_text("not committed")
        self.assertNotEqual(root.take_sources(tree), first)
        self.assertEqual((root.folder / "src/file").read_text(), "two")
        self.assertTrue((root.folder / "src/build").is_dir())


class InsideTest(unittest.TestCase):
    """Commands run inside a root; this machine's own serves as one."""

    def setUp(self):
        try:
            debian_root.require()
        except Unavailable as reason:
            self.skipTest(str(reason))

    def inside(self, script, within=PATIENCE_SECONDS):
        with tempfile.TemporaryFile("w+") as output, mock.patch("shutil.copyfile"):
            status = debian_root.DebianRoot("own", "/").run(
                ["/bin/sh", "-c", script], {"PATH": host_run.PATH, "A": "b"}, within, output)
            output.seek(0)
            return status, output.read()

    def test_a_command_has_its_status_its_environment_and_processes_of_its_own(self):
        status, text = self.inside("echo $A $$ ${HOME-none}; exit 3")
        self.assertEqual(status, 3)
        letter, number, home = text.split()
        self.assertEqual((letter, home), ("b", "none"))
        self.assertLess(int(number), 10)

    def test_mounts_end_with_the_command(self):
        status, text = self.inside("mount -t tmpfs dslide-mark /mnt && grep -c dslide-mark /proc/mounts")
        self.assertEqual((status, text), (0, "1\n"))
        self.assertNotIn("dslide-mark", pathlib.Path("/proc/self/mounts").read_text())

    def test_what_hangs_is_killed(self):
        with self.assertRaisesRegex(CommandFailed, "no end within 0.5 s"):
            self.inside("sleep 600", within=0.5)


if __name__ == "__main__":
    cases.main()
