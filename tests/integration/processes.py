"""Starts the project's programs for a test, waits for what they do, and ends them in every case.

A module for the *_test.py files of this folder; the benchmarks that start programs use it too
(bench/common/programs.py). Each of the tests is used as

    python3 FILE_test.py --bin-dir build/bin [unittest arguments, for example -k name or -v]

and ends with 0 (passed), 1 (failed) or 77 (every test was skipped). Waiting is polling for an
event, never a fixed pause, and there is one limit for all of it: PATIENCE_SECONDS. How fast the
machine is decides no test.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import fcntl
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

SKIPPED = 77
# After so long without the event, a wait is a hang. Far beyond what a busy machine or a sanitizer
# makes of anything that a test waits for, and below the limit of ctest
# (cmake/DslideScriptTests.cmake), so that a hang ends with a message of the test's own.
PATIENCE_SECONDS = 600

_POLL_SECONDS = 0.02
# What a message shows of a longer output; it names the file that has all of it.
_SHOWN_CHARACTERS = 20_000
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)

# Set by use_bin_dir().
_bin_dir = pathlib.Path()


def use_bin_dir(directory):
    """Where the programs are."""
    global _bin_dir
    _bin_dir = pathlib.Path(directory).resolve()


def bin_dir():
    return _bin_dir


def wait_until(condition, describe, alive=()):
    """The first true value of `condition()`.

    Fails with `describe()` after PATIENCE_SECONDS, or as soon as one of the processes `alive` has
    ended, without which there is nothing to wait for; their output is shown.
    """
    def gone():
        return [process for process in alive if not process.running()]

    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        # In this order: what a process that ends meanwhile has done is seen.
        ended = gone()
        try:
            value = condition()
        except OSError:
            # It has asked one that has just ended?
            value, ended = None, gone()
            if not ended:
                raise
        if value:
            return value
        if ended or time.monotonic() > deadline:
            why = "a process has ended before" if ended else f"not within {PATIENCE_SECONDS} s"
            raise AssertionError("\n".join([f"{why}: {describe()}", *map(str, ended or alive)]))
        time.sleep(_POLL_SECONDS)


# Numbers of ports that this process has given out, and the file whose bytes it has locked for them.
_ports = {"given": set(), "locks": None}


def _reserve(port):
    """Whether no other process of the tests has the port; it is this one's until its end then."""
    if _ports["locks"] is None:
        path = pathlib.Path(tempfile.gettempdir()) / f"dslide-test-ports-{os.getuid()}"
        _ports["locks"] = open(path, "ab")
    try:
        fcntl.lockf(_ports["locks"], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _ports["given"].add(port)
    return True


def free_port():
    """A loopback port that nobody listens on, and that no other process of the tests gets.

    From below the range of outgoing connections, so that none of them takes it before its use.
    """
    ranges = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    end = max(int(ranges.split()[0]), 20000)
    for port in random.SystemRandom().sample(range(10000, end), 100):
        if port in _ports["given"] or not _reserve(port):
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port found")


@contextlib.contextmanager
def taken_port():
    """The number of a loopback port that this process listens on meanwhile."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def die_with_parent():
    """What a new process runs first: a test that is killed by its own time limit leaves none behind."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _environment(extra):
    """This process's, without the variables that would set flags of the programs.

    But for one: commands that were told nothing else give a cluster up late, and yet before a test
    gives up the command.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DSLIDE_")}
    return kept | {"DSLIDE_TIMEOUT": f"{PATIENCE_SECONDS // 2}s"} | (extra or {})


def _session_members(session):
    """The processes of a session that run."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # After the name, which may hold anything: state, parent, group, session.
            name, _, rest = stat.read_text(errors="replace").rpartition(")")
            fields = rest.split()
            # A sanitizer's helper ends by itself, a little after the program that started it.
            if (int(fields[3]) == session and fields[0] != "Z"
                    and not name.endswith("(llvm-symbolizer")):
                yield int(stat.parent.name)


def _shown(name, text, directory):
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

    def __str__(self):
        return (f"{self.command}\nended with {self.code} after {self.seconds:.1f} s\n"
                f"{_shown('stdout', self.stdout, self.directory)}\n"
                f"{_shown('stderr', self.stderr, self.directory)}")

    def json(self):
        """The JSON object that -o json makes the last line of stdout."""
        lines = self.stdout.strip().splitlines()
        if not lines:
            raise AssertionError(f"no JSON on stdout: {self}")
        return json.loads(lines[-1])


class Process:
    """A running program; its output goes to files.

    `wrapper` is a command that becomes the program, for example `ip netns exec NAME`.
    """

    def __init__(self, program, arguments, directory, environment=None, wrapper=()):
        self.command = " ".join([program, *map(str, arguments)])
        self._directory = directory
        self._stdout = directory / "stdout"
        self._stderr = directory / "stderr"
        self._started = time.monotonic()
        with open(self._stdout, "wb") as stdout, open(self._stderr, "wb") as stderr:
            self._popen = subprocess.Popen(
                [*wrapper, _bin_dir / program, *map(str, arguments)], stdin=subprocess.DEVNULL,
                stdout=stdout, stderr=stderr, cwd=directory, start_new_session=True,
                env=_environment(environment), preexec_fn=die_with_parent)

    @property
    def pid(self):
        return self._popen.pid

    @property
    def stdout(self):
        return self._stdout.read_text(errors="replace")

    @property
    def stderr(self):
        return self._stderr.read_text(errors="replace")

    def _end(self):
        """What waitid says of its end, None before. Its id stays taken until kill()."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def running(self):
        return self._popen.returncode is None and self._end() is None

    def send(self, signal_number):
        os.kill(self.pid, signal_number)

    def wait_for_stderr(self, pattern):
        """The match of a regular expression, as soon as stderr has one."""
        return self._wait_for_output(self._stderr, pattern)

    def wait_for_stdout(self, pattern):
        return self._wait_for_output(self._stdout, pattern)

    def _wait_for_output(self, path, pattern):
        return wait_until(
            lambda: re.search(pattern, path.read_text(errors="replace"), re.MULTILINE),
            lambda: f"{pattern!r} in its output", alive=[self])

    def finish(self, within=None):
        """Waits for the end: PATIENCE_SECONDS, or `within` where it computes for longer."""
        limit = within or PATIENCE_SECONDS
        deadline = time.monotonic() + limit
        while self.running():
            if time.monotonic() > deadline:
                raise AssertionError(f"no end within {limit} s: {self}")
            time.sleep(_POLL_SECONDS)
        return self._finished()

    def stop(self, signal_number=signal.SIGTERM):
        """Sends the signal and waits for the end."""
        self.send(signal_number)
        return self.finish()

    def members(self):
        """Those of it and of the processes that it has started that run."""
        return list(_session_members(self.pid))

    def kill(self):
        """Ends it and everything that it has started, at once."""
        if self._popen.returncode is not None:
            return

        def survivors():
            found = self.members()
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return found

        wait_until(lambda: not survivors(), lambda: f"nothing is left of {self}")
        self._popen.wait()

    def _finished(self):
        end = self._end()
        code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
        return Finished(self.command, code, self.stdout, self.stderr,
                        time.monotonic() - self._started, self._directory)

    def __str__(self):
        return (f"{self.command}\n{_shown('stdout', self.stdout, self._directory)}\n"
                f"{_shown('stderr', self.stderr, self._directory)}")


class Server:
    """A dslide-coordinator or dslide-shard that serves."""

    def __init__(self, process):
        self.process = process
        ready = process.wait_for_stderr(r" address=(\S+) admin=(\S*)")
        self.address, self.admin = ready.groups()


class Cluster:
    """A `dslide up` that is ready."""

    def __init__(self, process):
        self.process = process
        process.wait_for_stdout(r"^\{.*\}$")
        self.parts = json.loads(process.stdout)
        self.address = self.parts["coordinator"]

    def shard_pid(self, shard):
        return self.parts["shards"][shard]["pid"]


class ProcessTest(unittest.TestCase):
    """Gives each test a directory of its own, and ends all of its processes after it.

    The directory of a test that failed stays, and is named.
    """

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="dslide-test-"))
        self._started = 0

    def run(self, result=None):
        result = result or self.defaultTestResult()
        before = len(result.failures) + len(result.errors)
        super().run(result)
        directory = getattr(self, "directory", None)
        if directory is None:
            pass  # skipped before it began
        elif len(result.failures) + len(result.errors) > before:
            print(f"FAILED {self.id()}: its files are in {directory}", file=sys.stderr, flush=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)
        return result

    def start(self, program, *arguments, environment=None):
        self._started += 1
        directory = self.directory / f"process-{self._started}"
        directory.mkdir()
        process = Process(program, arguments, directory, environment)
        self.addCleanup(process.kill)
        return process

    def run_dslide(self, *arguments, within=None):
        """Runs `dslide` to its end."""
        return self.start("dslide", *arguments).finish(within)

    def start_coordinator(self, *arguments, shards=1):
        return Server(self.start(
            "dslide-coordinator", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
            "--shards", shards, *arguments))

    def start_shard(self, coordinator, *arguments):
        """A shard that has joined the cluster."""
        shard = Server(self.start("dslide-shard", "--coordinator", coordinator.address, *arguments))
        shard.process.wait_for_stderr(r" shard ready ")
        return shard

    def start_cluster(self, *arguments, shards):
        return Cluster(self.start(
            "dslide", "up", "-o", "json", "--listen", f"127.0.0.1:{free_port()}",
            "--shards", shards, "--log-dir", self.directory / "logs", *arguments))

    def assert_ended(self, finished, code, *patterns):
        """The exit code, and what stderr has to say in whatever order."""
        self.assertEqual(finished.code, code, finished)
        for pattern in patterns:
            self.assertRegex(finished.stderr, pattern)


def fetch(address, path="/metrics"):
    """The body of an admin page at HOST:PORT. OSError when nobody answers."""
    # No proxy: loopback is never reached through one.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{address}{path}", timeout=PATIENCE_SECONDS) as answer:
        return answer.read().decode()


def metric(address, name):
    """The value of a metric without labels on an admin page; None when absent."""
    match = re.search(rf"^{re.escape(name)} (\S+)$", fetch(address), re.MULTILINE)
    return float(match.group(1)) if match else None


def main():
    """Runs the tests of the file that is executed, and ends the process."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bin-dir", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    use_bin_dir(options.bin_dir)
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id()}: {reason}", flush=True)
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit(1)
    sys.exit(SKIPPED if len(result.skipped) == result.testsRun else 0)
