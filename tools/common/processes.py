"""Starts the project's programs for a test, waits for what they do, and ends them in every case.

The benchmarks that start programs use it too (bench/common/programs.py): it needs no packages.
Waiting is polling for an event, never a fixed pause, and there is one limit for all of it:
PATIENCE_SECONDS. How fast the machine is decides no test.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Self, TypeVar

# A test that cannot run here ends so, and a file all of whose tests were skipped.
SKIPPED = 77
# After so long without the event, a wait is a hang. Far beyond what a busy machine or a sanitizer
# makes of anything that a test waits for, and below the limit of ctest
# (cmake/DslideScriptTests.cmake), so that a hang ends with a message of the test's own.
PATIENCE_SECONDS = 600

_POLL_SECONDS = 0.02
# What a message shows of a longer output; it names the file that has all of it.
_SHOWN_CHARACTERS = 20_000
# Becomes the program after it: a test that is killed by its time limit leaves none behind. Not a
# function of the new process: with one, Python forks, which gRPC's threads do not always survive.
DIES_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")

_Value = TypeVar("_Value")

# Set by use_bin_dir().
_bin_dir = pathlib.Path()


def use_bin_dir(directory: str | os.PathLike[str]) -> None:
    """Where the programs are."""
    global _bin_dir
    _bin_dir = pathlib.Path(directory).resolve()


def bin_dir() -> pathlib.Path:
    return _bin_dir


def wait_until(condition: Callable[[], _Value | None], describe: Callable[[], str],
               alive: Sequence[Process] = ()) -> _Value:
    """The first true value of `condition()`.

    Fails with `describe()` after PATIENCE_SECONDS, or as soon as one of the processes `alive` has
    ended, without which there is nothing to wait for; their output is shown.
    """
    def gone() -> list[Process]:
        return [process for process in alive if not process.running()]

    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        # In this order: what a process that ends meanwhile has done is seen.
        ended = gone()
        try:
            if value := condition():
                return value
        except OSError:
            # It has asked one that has just ended?
            ended = gone()
            if not ended:
                raise
        if ended or time.monotonic() > deadline:
            why = "a process has ended before" if ended else f"not within {PATIENCE_SECONDS} s"
            raise AssertionError("\n".join([f"{why}: {describe()}", *map(str, ended or alive)]))
        time.sleep(_POLL_SECONDS)


_given_ports: set[int] = set()


@functools.cache
def _port_locks() -> BinaryIO:
    """A file whose bytes stand for ports: their locks end with the process."""
    return open(pathlib.Path(tempfile.gettempdir()) / f"dslide-test-ports-{os.getuid()}", "ab")


def _reserve(port: int) -> bool:
    """Whether no other process of the tests has the port; it is this one's until its end then."""
    try:
        fcntl.lockf(_port_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _given_ports.add(port)
    return True


def free_port() -> int:
    """A loopback port that nobody listens on, and that no other process of the tests gets.

    From below the range of outgoing connections, so that none of them takes it before its use.
    """
    ranges = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    end = max(int(ranges.split()[0]), 20000)
    for port in random.SystemRandom().sample(range(10000, end), 100):
        if port in _given_ports or not _reserve(port):
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port found")


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    """The number of a loopback port that this process listens on meanwhile."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port: int = listener.getsockname()[1]
        yield port


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    """This process's, without the variables that would set flags of the programs.

    But for one: commands that were told nothing else give a cluster up late, and yet before a test
    gives up the command.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DSLIDE_")}
    return {**kept, "DSLIDE_TIMEOUT": f"{PATIENCE_SECONDS // 2}s", **(extra or {})}


def _session_members(session: int) -> Iterator[int]:
    """The processes of a session that run."""
    # Not by glob: it fails when a process ends while it looks.
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            stat = pathlib.Path("/proc", pid, "stat")
            # After the name, which may hold anything: state, parent, group, session.
            name, _, rest = stat.read_text(errors="replace").rpartition(")")
            fields = rest.split()
            # A sanitizer's helper ends by itself, a little after the program that started it.
            if (int(fields[3]) == session and fields[0] != "Z"
                    and not name.endswith("(llvm-symbolizer")):
                yield int(pid)


def _shown(name: str, text: str, directory: pathlib.Path) -> str:
    """An output for a message: its end when it is long, and where the whole is."""
    if len(text) > _SHOWN_CHARACTERS:
        text = f"[the whole is in {directory}/{name}]\n...{text[-_SHOWN_CHARACTERS:]}"
    return f"--- {name}\n{text}"


@dataclasses.dataclass
class Finished:
    """How a process ended."""

    command: str
    code: int  # negative: the signal that ended it
    stdout: str
    stderr: str
    seconds: float
    directory: pathlib.Path  # with its output in files

    def __str__(self) -> str:
        return (f"{self.command}\nended with {self.code} after {self.seconds:.1f} s\n"
                f"{_shown('stdout', self.stdout, self.directory)}\n"
                f"{_shown('stderr', self.stderr, self.directory)}")

    def json(self) -> Any:
        """The JSON object that -o json makes the last line of stdout."""
        lines = self.stdout.strip().splitlines()
        if not lines:
            raise AssertionError(f"no JSON on stdout: {self}")
        return json.loads(lines[-1])


class Process:
    """A running program; its output goes to files.

    `wrapper` is a command that becomes the program, for example `ip netns exec NAME`.
    """

    def __init__(self, program: str, arguments: Sequence[object], directory: pathlib.Path,
                 environment: Mapping[str, str] | None = None, wrapper: Sequence[str] = ()) -> None:
        self.command = " ".join([program, *map(str, arguments)])
        self._directory = directory
        self._stdout = directory / "stdout"
        self._stderr = directory / "stderr"
        self._started = time.monotonic()
        with open(self._stdout, "wb") as stdout, open(self._stderr, "wb") as stderr:
            self._popen = subprocess.Popen(
                [*DIES_WITH_PARENT, *wrapper, _bin_dir / program, *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=directory,
                start_new_session=True, env=_environment(environment))

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def stdout(self) -> str:
        return self._stdout.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    def _end(self) -> os.waitid_result | None:
        """What waitid says of its end, None before. Its id stays taken until kill()."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def running(self) -> bool:
        return self._popen.returncode is None and self._end() is None

    def send(self, signal_number: int) -> None:
        os.kill(self.pid, signal_number)

    def wait_for_stderr(self, pattern: str) -> re.Match[str]:
        """The match of a regular expression, as soon as stderr has one."""
        return self._wait_for_output(self._stderr, pattern)

    def wait_for_stdout(self, pattern: str) -> re.Match[str]:
        return self._wait_for_output(self._stdout, pattern)

    def _wait_for_output(self, path: pathlib.Path, pattern: str) -> re.Match[str]:
        found = wait_until(
            lambda: re.search(pattern, path.read_text(errors="replace"), re.MULTILINE),
            lambda: f"{pattern!r} in its output", alive=[self])
        assert found is not None
        return found

    def finish(self, within: float | None = None) -> Finished:
        """Waits for the end: PATIENCE_SECONDS, or `within` where it computes for longer."""
        limit = within or PATIENCE_SECONDS
        deadline = time.monotonic() + limit
        while self.running():
            if time.monotonic() > deadline:
                raise AssertionError(f"no end within {limit} s: {self}")
            time.sleep(_POLL_SECONDS)
        return self._finished()

    def stop(self, signal_number: int = signal.SIGTERM) -> Finished:
        """Sends the signal and waits for the end."""
        self.send(signal_number)
        return self.finish()

    def members(self) -> list[int]:
        """Those of it and of the processes that it has started that run."""
        return list(_session_members(self.pid))

    def kill(self) -> None:
        """Ends it and everything that it has started, at once."""
        if self._popen.returncode is not None:
            return

        def survivors() -> list[int]:
            found = self.members()
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return found

        wait_until(lambda: not survivors(), lambda: f"nothing is left of {self}")
        self._popen.wait()

    def _finished(self) -> Finished:
        end = self._end()
        assert end is not None
        code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
        return Finished(self.command, code, self.stdout, self.stderr,
                        time.monotonic() - self._started, self._directory)

    def __str__(self) -> str:
        return (f"{self.command}\n{_shown('stdout', self.stdout, self._directory)}\n"
                f"{_shown('stderr', self.stderr, self._directory)}")


class Server:
    """A dslide-coordinator or dslide-shard that serves."""

    def __init__(self, process: Process) -> None:
        self.process = process
        ready = process.wait_for_stderr(r" address=(\S+) admin=(\S*)")
        self.address, self.admin = ready.groups()


class Cluster:
    """A `dslide up` that is ready."""

    def __init__(self, process: Process) -> None:
        self.process = process
        process.wait_for_stdout(r"^\{.*\}$")
        self.parts: dict[str, Any] = json.loads(process.stdout)
        self.address: str = self.parts["coordinator"]

    def shard_pid(self, shard: int) -> int:
        return int(self.parts["shards"][shard]["pid"])


class Programs:
    """Starts programs, each in a folder of its own below `directory`, and ends them all."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._started: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        for process in reversed(self._started):
            process.kill()

    def start(self, program: str, *arguments: object, wrapper: Sequence[str] = (),
              environment: Mapping[str, str] | None = None) -> Process:
        directory = self.directory / f"process-{len(self._started) + 1}"
        directory.mkdir()
        self._started.append(Process(program, arguments, directory, environment, wrapper))
        return self._started[-1]

    def run_dslide(self, *arguments: object, within: float | None = None) -> Finished:
        """Runs `dslide` to its end."""
        return self.start("dslide", *arguments).finish(within)

    def start_coordinator(self, *arguments: object, shards: int = 1) -> Server:
        return Server(self.start(
            "dslide-coordinator", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
            "--shards", shards, *arguments))

    def start_shard(self, coordinator: Server, *arguments: object) -> Server:
        """A shard that has joined the cluster."""
        shard = Server(self.start("dslide-shard", "--coordinator", coordinator.address, *arguments))
        shard.process.wait_for_stderr(r" shard ready ")
        return shard

    def start_lone_shard(self, *arguments: object) -> Server:
        """A shard without a coordinator, and without an admin page unless an argument wants one."""
        return Server(self.start("dslide-shard", "--listen", "127.0.0.1:0", "--admin", "",
                                 "--coordinator", "", "--threads", 1, *arguments))

    def start_cluster(self, *arguments: object, shards: int) -> Cluster:
        return Cluster(self.start(
            "dslide", "up", "-o", "json", "--listen", f"127.0.0.1:{free_port()}",
            "--shards", shards, "--log-dir", self.directory / "logs", *arguments))


def assert_ended(finished: Finished, code: int, *patterns: str) -> None:
    """The exit code, and what stderr has to say in whatever order."""
    assert finished.code == code, finished
    for pattern in patterns:
        assert re.search(pattern, finished.stderr), f"{pattern!r} is not in {finished}"


def fetch(address: str, path: str = "/metrics") -> str:
    """The body of an admin page at HOST:PORT. OSError when nobody answers."""
    # No proxy: loopback is never reached through one.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{address}{path}", timeout=PATIENCE_SECONDS) as answer:
        body: bytes = answer.read()
        return body.decode()


def look_at(address: str, path: str) -> tuple[int, str]:
    """The status and the body of an admin page; 0 when nobody answers."""
    try:
        return 200, fetch(address, path)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def metric(address: str, name: str) -> float | None:
    """The value of a metric without labels on an admin page; None when absent."""
    match = re.search(rf"^{re.escape(name)} (\S+)$", fetch(address), re.MULTILINE)
    return float(match.group(1)) if match else None


def metric_values(page: str, name: str) -> list[float]:
    """The values of a metric with whatever labels in the text of an admin page."""
    return list(map(float, re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", page,
                                      re.MULTILINE)))
