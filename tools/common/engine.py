"""A container engine for checks: one that is given, or a private one.

Commands are run as `docker …` against one socket; every one has a time limit. A private engine
keeps everything in one folder and is ended with all that it runs.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from network_namespace import NetworkNamespace
from processes import PATIENCE_SECONDS, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]

Word = str | int | float | pathlib.Path
ENGINE_PROGRAMS = ("dockerd", "containerd", "runc")


class Unavailable(Exception):
    """Why this machine cannot do a thing."""


class CommandFailed(AssertionError):
    """A command that did not end as it should, with what it said; or something that does not hold.
    """


def check(condition: object, message: str) -> None:
    if not condition:
        raise CommandFailed(message)


def say(text: str) -> None:
    print(f"== {text}", file=sys.stderr, flush=True)


def note(text: str) -> None:
    print(f"   {text}", file=sys.stderr, flush=True)


def show(figures: Mapping[str, Any], form: str, width: int) -> None:
    """Prints what was found: as one JSON object, or a line each for people."""
    if form == "json":
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:{width}} {value}")


def run(command: Sequence[Word], within: float = PATIENCE_SECONDS,
        environment: Mapping[str, str] | None = None,
        accept: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; CommandFailed when its status is not accepted."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=within,
                              stdin=subprocess.DEVNULL, env=os.environ | (environment or {}))
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"{' '.join(words)}: no end within {within} s; stderr: "
                            f"{(error.stderr or b'')!r}") from None
    if done.returncode not in accept:
        raise CommandFailed(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}\n"
                            f"{done.stderr}")
    return done


class Engine:
    """Talks to the engine at `host` (unix:///…)."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.environment = {"DOCKER_HOST": host, "DOCKER_BUILDKIT": "1"}

    def docker(self, *arguments: Word, within: float = PATIENCE_SECONDS,
               accept: Sequence[int] = (0,), environment: Mapping[str, str] | None = None,
               ) -> subprocess.CompletedProcess[str]:
        return run(["docker", *arguments], within, {**self.environment, **(environment or {})},
                   accept)

    def output(self, *arguments: Word, within: float = PATIENCE_SECONDS) -> str:
        return self.docker(*arguments, within=within).stdout.strip()

    def inspect(self, name: str) -> Any:
        return json.loads(self.output("inspect", name))[0]

    def has_image(self, name: str) -> bool:
        return self.docker("image", "inspect", name, accept=(0, 1)).returncode == 0

    def answers(self) -> bool:
        return self.docker("version", accept=(0, 1)).returncode == 0

    def address(self, container: str) -> str:
        """The container's address in its first network, which this machine reaches."""
        networks = self.inspect(container)["NetworkSettings"]["Networks"]
        return next(str(network["IPAddress"]) for network in networks.values())


class PrivateEngine(Engine):
    """A dockerd that this process starts, in a network namespace when one is named.

    `options` are further flags of dockerd.
    """

    def __init__(self, directory: pathlib.Path, namespace: str | None = None,
                 options: Sequence[str] = ()) -> None:
        super().__init__(f"unix://{directory}/docker.sock")
        missing = [name for name in ENGINE_PROGRAMS if not shutil.which(name)]
        if missing:
            raise Unavailable(f"{', '.join(missing)} not installed; apt-get install docker.io")
        if os.geteuid() != 0:
            raise Unavailable("an engine of our own needs root; or set DOCKER_HOST")
        directory.mkdir(parents=True, exist_ok=True)
        self._log = directory / "dockerd.log"
        # Not `ip netns exec`: it mounts a /sys without control groups.
        wrapper = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [*wrapper, "dockerd", "--data-root", directory / "data", "--exec-root",
                 directory / "exec", "--host", self.host, "--pidfile", directory / "pid",
                 "--default-ulimit", "nofile=16384:16384", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_until(self._started, self._said)
        except AssertionError:
            self.stop()
            raise

    def _said(self) -> str:
        return f"dockerd is ready; it said: {self._log.read_text(errors='replace')}"

    def _started(self) -> bool:
        if self._process.poll() is not None:
            raise CommandFailed(f"dockerd ended with {self._process.returncode}; {self._said()}")
        return self.answers()

    def stop(self) -> None:
        """Ends it and its containers."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def require_compose() -> None:
    """Unavailable unless `docker compose` is version 2."""
    if not shutil.which("docker"):
        raise Unavailable("no docker client; apt-get install docker.io (docker-cli on Debian 13)")
    shown = run(["docker", "compose", "version", "--short"], accept=tuple(range(256)))
    version = shown.stdout.strip().lstrip("v")
    if shown.returncode != 0 or not version.startswith(("2", "3", "4", "5")):
        raise Unavailable("`docker compose` version 2 is missing: Debian 13's package "
                          "docker-compose has it, Debian 12's is version 1; put its plugin into "
                          "~/.docker/cli-plugins")


class Engines:
    """DOCKER_HOST's engine; or, when one may be started, private ones.

    Two private ones, one after the other on the same data: a build needs this machine's network,
    whose packet filter an engine with networks would change, so that one has no networks; the one
    that runs containers gets a network namespace with nothing else in it, this process with it.
    """

    BUILD_OPTIONS = ("--bridge=none", "--iptables=false", "--ip6tables=false",
                     "--ip-forward=false", "--ip-masq=false")

    def __init__(self, start_engine: bool, directory: pathlib.Path) -> None:
        self._directory = directory
        self._given: Engine | None = None
        given = os.environ.get("DOCKER_HOST")
        if given:
            self._given = Engine(given)
            if not self._given.answers():
                raise Unavailable(f"no engine answers at DOCKER_HOST={given}")
        elif not start_engine:
            raise Unavailable("DOCKER_HOST is not set; set it, or give --start-engine to start a "
                              "private dockerd (needs root)")

    @contextlib.contextmanager
    def to_build(self) -> Iterator[Engine]:
        if self._given:
            yield self._given
            return
        say(f"Starting a private engine in {self._directory}")
        engine = PrivateEngine(self._directory, options=self.BUILD_OPTIONS)
        with _stopped_at_the_end(engine):
            yield engine

    @contextlib.contextmanager
    def to_run(self) -> Iterator[Engine]:
        if self._given:
            yield self._given
            return
        with NetworkNamespace():
            engine = PrivateEngine(self._directory)
            with _stopped_at_the_end(engine):
                yield engine


@contextlib.contextmanager
def _stopped_at_the_end(engine: PrivateEngine) -> Iterator[None]:
    try:
        yield
    finally:
        engine.stop()
