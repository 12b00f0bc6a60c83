"""A cluster of processes on this machine, for as long as the program runs."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from dslide.client import Client, connect
from dslide.errors import InvalidArgumentError, NotFoundError, UnavailableError

_READY_SECONDS = 60.0
_STOP_SECONDS = 300.0  # a shard writes its rows when it is stopped


def _program(binary: str | os.PathLike[str] | None) -> str:
    wanted = os.fspath(binary) if binary is not None else os.environ.get("DSLIDE_BINARY", "dslide")
    found = shutil.which(wanted)
    if found is None:
        raise NotFoundError(
            f"there is no program {wanted!r}: build or install dslide, and have it "
            "in PATH, in DSLIDE_BINARY, or name it with binary="
        )
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class LocalCluster(Client):
    """A client whose cluster ends with it. `address` is the coordinator's."""

    def __init__(
        self,
        shards: int = 2,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        threads: int = 0,
        binary: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        if shards < 1:
            raise InvalidArgumentError(f"shards is {shards}, must be at least 1")
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data_dir is None:
            # Best epochs are kept as checkpoints, which need a directory.
            self._temporary = tempfile.TemporaryDirectory(prefix="dslide-local-")
            data_dir = self._temporary.name
        self._process: subprocess.Popen[str] | None = None
        try:
            self.address = self._start(shards, pathlib.Path(data_dir), threads, _program(binary))
            self._inner = connect(self.address, timeout=timeout)
            self.connection = self._inner.connection
        except BaseException:
            self.stop()
            raise

    def _start(self, shards: int, data_dir: pathlib.Path, threads: int, program: str) -> str:
        address = f"127.0.0.1:{_free_port()}"
        command = [
            program,
            "up",
            "--shards",
            str(shards),
            "--listen",
            address,
            "--data-dir",
            str(data_dir),
            "--threads",
            str(threads),
            "--timeout",
            f"{_READY_SECONDS:.0f}s",
            "--until-stdin-ends",
            "-o",
            "json",
        ]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("DSLIDE_")}
        self._log = data_dir / "up.log"
        data_dir.mkdir(parents=True, exist_ok=True)
        with open(self._log, "wb") as log:
            # Its standard input ends with this process, however that ends. Its own session: a
            # Ctrl-C in the terminal is this program's to handle.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=kept,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if select.select([self._process.stdout], [], [], 0.1)[0]:
                line = self._process.stdout.readline()
                if line:
                    started: str = json.loads(line)["coordinator"]
                    return started
            if self._process.poll() is not None:
                break
        raise UnavailableError(f"the local cluster did not start: {self._last_words()}")

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            text = self._log.read_text("utf-8", errors="replace").strip()
            return text[-2000:] or f"{self._log} is empty"
        return "its log is gone"

    def stop(self) -> None:
        """Stops the processes alone; rows stay in a given data_dir."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def close(self) -> None:
        """Closes the connections, then stops the processes; rows stay in a given data_dir."""
        if self._process is None:
            return
        self._inner.close()
        self.stop()


def local(
    shards: int = 2,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    threads: int = 0,
    binary: str | os.PathLike[str] | None = None,
    timeout: float = 30.0,
) -> LocalCluster:
    """Starts a coordinator and shards as child processes, and connects to them.

    Parameters
    ----------
    shards : how many
    data_dir : keeps rows and checkpoints; None: a temporary one, removed at the end
    threads : of all shards together; 0: all of the machine
    binary : the program `dslide`; None: $DSLIDE_BINARY, or the one in PATH
    timeout : seconds, the deadline of every call

    The processes end with `close`, at the end of a `with`, and with this process, however it ends.

    Raises
    ------
    NotFoundError : there is no such program
    UnavailableError : the cluster did not start; its log is in the text
    """
    return LocalCluster(shards, data_dir=data_dir, threads=threads, binary=binary, timeout=timeout)
