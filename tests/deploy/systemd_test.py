"""The systemd units: hardened, patient at the end, and verified by systemd where it is at hand."""

import collections
import pathlib
import re
import shutil
import subprocess

import cases
import pytest
from processes import PATIENCE_SECONDS

PROGRAMS = {"dslide-coordinator.service": "dslide-coordinator",
            "dslide-shard@.service": "dslide-shard", "dslide-trainer@.service": "dslide"}
# systemd's scale: 0 is best, 10 is a service without any protection.
EXPOSURE = 2.0
Settings = dict[str, list[str]]
UNITS: dict[str, Settings] = {}
for _name in PROGRAMS:
    UNITS[_name] = collections.defaultdict(list)
    for _key, _value in re.findall(r"(?m)^(\w+)=(.*)$", cases.read(f"deploy/systemd/{_name}")):
        UNITS[_name][_key].append(_value)
every_unit = pytest.mark.parametrize("name", UNITS)


def test_all_units_are_known() -> None:
    assert {path.name for path in (cases.DEPLOY / "systemd").glob("*.service")} == set(UNITS)


@every_unit
def test_nothing_is_privileged(name: str) -> None:
    wanted = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "CapabilityBoundingSet": "",
              "User": "dslide", "StateDirectoryMode": "0700"}
    assert {key: UNITS[name][key] for key in wanted} == {
        key: [value] for key, value in wanted.items()}
    assert UNITS[name]["StateDirectory"][0].startswith("dslide/")


@every_unit
def test_commands_need_no_shell(name: str) -> None:
    commands = UNITS[name]["ExecStart"] + UNITS[name]["ExecStartPre"]
    assert all(command.startswith(f"/usr/bin/{PROGRAMS[name]} ") for command in commands)


@every_unit
def test_stopping_leaves_time_for_the_drain(name: str) -> None:
    drain = cases.drain_seconds(PROGRAMS[name]) if PROGRAMS[name] != "dslide" else 5
    assert cases.seconds(UNITS[name]["TimeoutStopSec"][0]) >= 4 * drain


@pytest.mark.parametrize("name", [name for name in UNITS if PROGRAMS[name] != "dslide"])
def test_what_people_must_mend_is_not_tried_again(name: str) -> None:
    assert UNITS[name]["Restart"] == ["on-failure"]
    assert UNITS[name]["RestartPreventExitStatus"] == ["2 4"]


def test_the_account_is_that_of_the_image() -> None:
    assert "u dslide 10001 " in cases.read("deploy/systemd/dslide.sysusers")


@pytest.fixture
def units(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with them; the programs need not be installed: only that they can be is checked."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    for name in UNITS:
        text = re.sub(r"/usr/bin/dslide\S*", "/bin/true", cases.read(f"deploy/systemd/{name}"))
        (tmp_path / name).write_text(text, encoding="ascii")
        (tmp_path / name.replace("@.", "@1.")).write_text(text, encoding="ascii")
    return tmp_path


def analyze(*words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True,
                          timeout=PATIENCE_SECONDS)


@every_unit
def test_verify_finds_nothing(name: str, units: pathlib.Path) -> None:
    done = analyze("verify", "--man=no", units / name.replace("@.", "@1."))
    said = [line for line in done.stderr.splitlines() if "dslide" in line]
    assert (done.returncode, said) == (0, []), done.stderr


@every_unit
def test_exposure_is_low(name: str, units: pathlib.Path) -> None:
    shown = analyze("security", "--offline=true", units / name).stdout
    assert float(cases.find(r"Overall exposure level for \S+: ([\d.]+)", shown)) <= EXPOSURE


def test_verify_sees_a_misspelt_setting(units: pathlib.Path) -> None:
    bad = units / "bad.service"
    bad.write_text("[Service]\nExecStart=/bin/true\nProtectSystems=strict\n", encoding="ascii")
    assert "ProtectSystems" in analyze("verify", "--man=no", bad).stderr
