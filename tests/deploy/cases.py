"""What the tests of this folder share: paths, the programs, YAML, durations, how a test ends.

Each is used as FILE_test.py [--bin-dir DIR] [unittest arguments] and ends with 0, 1, or 77 when
every test was skipped.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import unittest

from engine import PATIENCE_SECONDS

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
USER = "10001:10001"
SKIPPED = 77

# Set by main(); None without --bin-dir.
_bin_dir = None


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def project_version():
    return read("VERSION").strip()


def load_yaml(text):
    """The data of a YAML text; SkipTest without a parser."""
    try:
        import yaml
    except ImportError:
        raise unittest.SkipTest("no YAML parser here; apt-get install python3-yaml") from None
    return yaml.safe_load(text)


def seconds(duration):
    """'1m30s' or '90s' in seconds."""
    units = {"h": 3600, "min": 60, "m": 60, "s": 1}
    parts = re.findall(r"(\d+)(h|min|m|s)", duration)
    if "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(f"not a duration: {duration!r}")
    return sum(int(number) * units[unit] for number, unit in parts)


def interpolate(text):
    """Compose's ${NAME:-default} as with an empty environment; ${NAME:?message} becomes 'given'."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    return re.sub(r"\$\{\w+:\?[^}]*\}", "given", text)


def help_text(program):
    """What PROGRAM --help says; SkipTest without programs."""
    if _bin_dir is None or not (_bin_dir / program).exists():
        raise unittest.SkipTest(f"no {program} given; --bin-dir names the folder of the programs")
    return subprocess.run([_bin_dir / program, "--help"], capture_output=True, text=True, timeout=PATIENCE_SECONDS,
                          check=True).stdout


def flags(program):
    """The flags that a server knows, without dashes."""
    return set(re.findall(r"^ +--([a-z-]+)", help_text(program), re.MULTILINE))


def drain_seconds(program):
    """What a server takes at most to refuse calls, by its defaults."""
    found = re.findall(r"--drain-(?:timeout|delay) TIME=(\w+)", help_text(program))
    return sum(seconds(value) if value != "0" else 0 for value in found)


def check_config(program, settings):
    """Runs PROGRAM --check-config on a text of settings; its status and what it said."""
    help_text(program)
    done = subprocess.run([_bin_dir / program, "--config", "/dev/stdin", "--check-config"],
                          input=settings, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    return done.returncode, done.stderr


def start_error(program, settings):
    """Runs PROGRAM on settings with which it cannot start; its status and what it said."""
    help_text(program)
    done = subprocess.run([_bin_dir / program, "--config", "/dev/stdin"], input=settings,
                          capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    return done.returncode, done.stderr


def certificates(folder):
    """The folder, with development certificates in it; SkipTest without programs."""
    help_text("dslide")
    subprocess.run([_bin_dir / "dslide", "certs", "dev", "--output", folder], check=True,
                   capture_output=True, timeout=PATIENCE_SECONDS)
    return folder


def revoke(folder, role):
    """Adds the role's certificate of that folder to its lists of revoked ones."""
    subprocess.run([_bin_dir / "dslide", "certs", "revoke", "--from", folder, folder / f"{role}.crt"],
                   check=True, capture_output=True, timeout=PATIENCE_SECONDS)


def main():
    global _bin_dir
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bin-dir", type=pathlib.Path)
    options, rest = parser.parse_known_args()
    _bin_dir = options.bin_dir
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id()}: {reason}", flush=True)
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit(1)
    sys.exit(SKIPPED if len(result.skipped) == result.testsRun else 0)
