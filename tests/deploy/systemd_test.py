"""The systemd units: hardened, patient at the end, and verified by systemd where it is at hand."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import cases
from engine import PATIENCE_SECONDS

UNITS = {"dslide-coordinator.service": "dslide-coordinator", "dslide-shard@.service": "dslide-shard",
         "dslide-trainer@.service": "dslide"}
# systemd's scale: 0 is best, 10 is a service without any protection.
EXPOSURE = 2.0


def settings(text):
    """{name: [values]} of a unit."""
    found = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


class UnitTest(unittest.TestCase):
    def each(self):
        for name, program in UNITS.items():
            with self.subTest(name):
                yield program, settings(cases.read(f"deploy/systemd/{name}"))

    def test_all_units_are_known(self):
        found = {path.name for path in (cases.DEPLOY / "systemd").glob("*.service")}
        self.assertEqual(found, set(UNITS))

    def test_nothing_is_privileged(self):
        for _, unit in self.each():
            self.assertEqual(unit["NoNewPrivileges"], ["yes"])
            self.assertEqual(unit["ProtectSystem"], ["strict"])
            self.assertEqual(unit["CapabilityBoundingSet"], [""])
            self.assertEqual(unit["User"], ["dslide"])
            self.assertTrue(unit["StateDirectory"][0].startswith("dslide/"))
            self.assertEqual(unit["StateDirectoryMode"], ["0700"])

    def test_commands_need_no_shell(self):
        for program, unit in self.each():
            for command in unit["ExecStart"] + unit.get("ExecStartPre", []):
                self.assertTrue(command.startswith(f"/usr/bin/{program} "), command)

    def test_stopping_leaves_time_for_the_drain(self):
        for program, unit in self.each():
            drain = cases.drain_seconds(program) if program != "dslide" else 5
            self.assertGreaterEqual(cases.seconds(unit["TimeoutStopSec"][0]), 4 * drain)

    def test_what_people_must_mend_is_not_tried_again(self):
        for program, unit in self.each():
            if program != "dslide":
                self.assertEqual(unit["Restart"], ["on-failure"])
                self.assertEqual(unit["RestartPreventExitStatus"], ["2 4"])

    def test_the_account_is_that_of_the_image(self):
        self.assertIn("u dslide 10001 ", cases.read("deploy/systemd/dslide.sysusers"))


class SystemdTest(unittest.TestCase):
    """What systemd says of them."""

    def setUp(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze here")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in UNITS:
            # The programs need not be installed: only that they can be is checked here.
            text = re.sub(r"/usr/bin/dslide\S*", "/bin/true", cases.read(f"deploy/systemd/{name}"))
            (self.folder / name).write_text(text, encoding="ascii")

    def analyze(self, *arguments):
        return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True,
                              timeout=PATIENCE_SECONDS)

    def test_verify_finds_nothing(self):
        for name in UNITS:
            unit = name.replace("@.", "@1.")
            if unit != name:
                shutil.copy(self.folder / name, self.folder / unit)
            done = self.analyze("verify", "--man=no", str(self.folder / unit))
            said = [line for line in done.stderr.splitlines() if "dslide" in line]
            self.assertEqual((done.returncode, said), (0, []), done.stderr)

    def test_exposure_is_low(self):
        for name in UNITS:
            shown = self.analyze("security", "--offline=true", str(self.folder / name)).stdout
            level = re.search(r"Overall exposure level for \S+: ([\d.]+)", shown)
            self.assertIsNotNone(level, shown)
            self.assertLessEqual(float(level.group(1)), EXPOSURE, name)

    def test_verify_sees_a_misspelt_setting(self):
        bad = self.folder / "bad.service"
        bad.write_text("[Service]\nExecStart=/bin/true\nProtectSystems=strict\n", encoding="ascii")
        self.assertIn("ProtectSystems", self.analyze("verify", "--man=no", str(bad)).stderr)


if __name__ == "__main__":
    cases.main()
