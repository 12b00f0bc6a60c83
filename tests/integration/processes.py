"""Starts the project's programs for a test, waits for what they do, and ends them in every case.

A module for the *_test.py files of this folder; the benchmarks that start programs use it too
(bench/common/programs.py). Each of the tests is used as

    python3 FILE_test.py --bin-dir build/bin [unittest arguments, for example -k name or -v]

and ends with 0 (passed), 1 (failed) or 77 (every test was skipped). Waiting is polling with a
deadline, never a fixed pause. All deadlines are multiplied by DSLIDE_TEST_SLOWDOWN, for builds with
sanitizers and for busy machines.
"""

import argparse
import contextlib
import ctypes
import dataclasses
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

SLOWDOWN = float(os.environ.get("DSLIDE_TEST_SLOWDOWN", "1"))
SKIPPED = 77
START_SECONDS = 20
STOP_SECONDS = 20

_POLL_SECONDS = 0.02
_SHOWN_BYTES = 4000
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


def wait_until(condition, describe, within):
    """The first true value of `condition()`; fails with `describe()` after `within` seconds."""
    deadline = time.monotonic() + within * SLOWDOWN
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within * SLOWDOWN:g} s: {describe()}")
        time.sleep(_POLL_SECONDS)


def free_port():
    """A loopback port that nobody listens on.

    From below the range of outgoing connections, so that none of them takes it before its use.
    """
    ranges = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    end = max(int(ranges.split()[0]), 20000)
    for port in random.SystemRandom().sample(range(10000, end), 100):
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


def _die_with_parent():
    # A test that is killed by its own time limit leaves no process behind.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _environment(extra):
    """This process's, without the variables that would set flags of the programs."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DSLIDE_")}
    return kept | (extra or {})


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


@dataclasses.dataclass
class Finished:
    """How a process ended."""

    command: str
    code: int  # negative: the signal that ended it
    stdout: str
    stderr: str
    seconds: float

    def __str__(self):
        return (f"{self.command}\nended with {self.code} after {self.seconds:.1f} s\n"
                f"--- stdout\n{self.stdout[-_SHOWN_BYTES:]}\n"
                f"--- stderr\n{self.stderr[-_SHOWN_BYTES:]}")

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
        self._stdout = directory / "stdout"
        self._stderr = directory / "stderr"
        self._started = time.monotonic()
        with open(self._stdout, "wb") as stdout, open(self._stderr, "wb") as stderr:
            self._popen = subprocess.Popen(
                [*wrapper, _bin_dir / program, *map(str, arguments)], stdin=subprocess.DEVNULL,
                stdout=stdout, stderr=stderr, cwd=directory, start_new_session=True,
                env=_environment(environment), preexec_fn=_die_with_parent)

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
        return self._end() is None

    def send(self, signal_number):
        os.kill(self.pid, signal_number)

    def wait_for_stderr(self, pattern, within=START_SECONDS):
        """The match of a regular expression, as soon as stderr has one."""
        return self._wait_for_output(self._stderr, pattern, within)

    def wait_for_stdout(self, pattern, within=START_SECONDS):
        return self._wait_for_output(self._stdout, pattern, within)

    def _wait_for_output(self, path, pattern, within):
        def found():
            # In this order: the last words of a process that ends meanwhile are seen.
            running = self.running()
            match = re.search(pattern, path.read_text(errors="replace"), re.MULTILINE)
            if match is None and not running:
                raise AssertionError(f"it ended without {pattern!r}: {self._finished()}")
            return match

        return wait_until(found, lambda: f"{pattern!r} of {self}", within)

    def finish(self, within):
        """Waits for the end."""
        wait_until(lambda: not self.running(), lambda: f"the end of {self}", within)
        return self._finished()

    def stop(self, signal_number=signal.SIGTERM, within=STOP_SECONDS):
        """Sends the signal and waits for the end."""
        self.send(signal_number)
        return self.finish(within)

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

        wait_until(lambda: not survivors(), lambda: f"nothing is left of {self}", STOP_SECONDS)
        self._popen.wait()

    def _finished(self):
        end = self._end()
        code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
        return Finished(self.command, code, self.stdout, self.stderr,
                        time.monotonic() - self._started)

    def __str__(self):
        return (f"{self.command}\n--- stdout\n{self.stdout[-_SHOWN_BYTES:]}\n"
                f"--- stderr\n{self.stderr[-_SHOWN_BYTES:]}")


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
    """Gives each test a directory of its own, and ends all of its processes after it."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="dslide-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self._started = 0

    def start(self, program, *arguments, environment=None):
        self._started += 1
        directory = self.directory / f"process-{self._started}"
        directory.mkdir()
        process = Process(program, arguments, directory, environment)
        self.addCleanup(process.kill)
        return process

    def run_dslide(self, *arguments, within):
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


def metric(page, name):
    """The value of a metric without labels on an admin page at HOST:PORT; None when absent."""
    # No proxy: loopback is never reached through one.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{page}/metrics", timeout=10 * SLOWDOWN) as answer:
        text = answer.read().decode()
    match = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
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
