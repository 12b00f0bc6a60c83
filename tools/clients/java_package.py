"""The Java package, built and tested by Maven with the versions of its pom.xml.

What Maven fetches is kept in a repository of its own in the cache folder, and never looked for
again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess

from python_package import ROOT, cache_folder, say

SOURCE = ROOT / "client" / "java"
RESULTS = SOURCE / "target" / "surefire-reports"
TOOLS = ("java", "javac", "mvn")


def install(bin_dir: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Builds and tests it, as its page says; the cases are in `RESULTS` where it came so far."""
    return _run(bin_dir, "install")


def build(bin_dir: pathlib.Path) -> None:
    """Builds it alone. Raises subprocess.CalledProcessError, with the output in `stdout`."""
    _run(bin_dir, "-DskipTests", "package").check_returncode()


def class_path() -> str:
    """What a program needs that uses it, once it is built."""
    [jar] = (SOURCE / "target").glob("dslide-*.jar")
    return f"{jar}:{SOURCE / 'target' / 'lib'}/*"


def _run(bin_dir: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    key = hashlib.sha256((SOURCE / "pom.xml").read_bytes()).hexdigest()[:16]
    repository = cache_folder() / f"java-{key}"
    complete = repository / "complete"
    tests = "install" in arguments
    with open(cache_folder() / "java.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Maven's repositories are for one at a time
        if tests:
            shutil.rmtree(RESULTS, ignore_errors=True)  # those of an earlier run
        if not complete.exists():
            say("fetching what client/java/pom.xml names")
        done = subprocess.run(
            ["mvn", "--batch-mode", "--quiet", "--strict-checksums",
             f"-Dmaven.repo.local={repository}", *(["--offline"] if complete.exists() else []),
             *arguments],
            cwd=SOURCE, check=False, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=_variables(bin_dir))
        if tests and RESULTS.exists():  # tests run last: everything that is needed was there
            complete.touch()
    return done


def _variables(bin_dir: pathlib.Path) -> dict[str, str]:
    # It runs for seconds: the better compiler of the JVM would only cost.
    options = f"-XX:TieredStopAtLevel=1 {os.environ.get('MAVEN_OPTS', '')}".strip()
    return {**os.environ, "MAVEN_OPTS": options, "DSLIDE_BIN_DIR": str(bin_dir)}
