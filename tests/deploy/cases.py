"""What the tests of this folder share: paths, what the programs say, durations."""

import functools
import pathlib
import re
import subprocess
from typing import Any

import processes
import pytest
import yaml
from processes import PATIENCE_SECONDS

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
USER = "10001:10001"


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def find(pattern: str, text: str) -> str:
    """The first group of the pattern's first match, over lines."""
    match = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    assert match, f"no {pattern!r} in {text}"
    return match.group(1)


def project_version() -> str:
    return read("VERSION").strip()


def seconds(duration: str) -> int:
    """'1m30s' or '90s' in seconds."""
    units = {"h": 3600, "min": 60, "m": 60, "s": 1}
    parts = re.findall(r"(\d+)(h|min|m|s)", duration)
    if "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(f"not a duration: {duration!r}")
    return sum(int(number) * units[unit] for number, unit in parts)


def interpolate(text: str) -> str:
    """Compose's ${NAME:-default} as with an empty environment; ${NAME:?message} is 'given'."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    return re.sub(r"\$\{\w+:\?[^}]*\}", "given", text)


def services(text: str) -> dict[str, Any]:
    """Those of a compose file."""
    found: dict[str, Any] = yaml.safe_load(interpolate(text))["services"]
    return found


def settings_of(environment: dict[str, str]) -> str:
    """The variables of a server as a file of settings."""
    return "".join(f'{name.removeprefix("DSLIDE_").lower().replace("_", "-")} = "{value}"\n'
                   for name, value in environment.items() if name.startswith("DSLIDE_"))


def run(program: str, *words: str | pathlib.Path,
        settings: str | None = None) -> subprocess.CompletedProcess[str]:
    """The finished program, with settings on its stdin; skips the test without programs."""
    path = processes.bin_dir() / program
    if not path.is_file():
        pytest.skip(f"no {program} given; --bin-dir names the folder of the programs")
    return subprocess.run([path, *words], input=settings, capture_output=True, text=True,
                          timeout=PATIENCE_SECONDS)


@functools.cache
def help_text(program: str, *words: str) -> str:
    return run(program, *words, "--help").stdout


def flags(program: str, *words: str) -> set[str]:
    """The flags that a server knows, without dashes."""
    return set(re.findall(r"^ +--([a-z-]+)", help_text(program, *words), re.MULTILINE))


def drain_seconds(program: str) -> int:
    """What a server takes at most to refuse calls, by its defaults."""
    found = re.findall(r"--drain-(?:timeout|delay) TIME=(\w+)", help_text(program))
    return sum(seconds(value) for value in found if value != "0")


def assert_accepted(program: str, settings: str) -> None:
    done = run(program, "--config", "/dev/stdin", "--check-config", settings=settings)
    assert done.returncode == 0, f"{program}: {done.stderr}\n{settings}"


def assert_no_start_without_lists(program: str, settings: str, lists: str) -> None:
    """The settings are good but for the directory of lists, which is absent."""
    done = run(program, "--config", "/dev/stdin", settings=settings)
    assert done.returncode == 2, done
    assert f"{lists} (--tls-crl-dir)" in done.stderr


def certificates(folder: pathlib.Path) -> pathlib.Path:
    """The folder, with development certificates in it, of which the trainer's is revoked."""
    for done in (run("dslide", "certs", "dev", "--output", folder),
                 run("dslide", "certs", "revoke", "--from", folder, folder / "trainer.crt")):
        assert done.returncode == 0, done
    return folder
