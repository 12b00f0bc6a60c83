"""Runs the program of a language that adds ones to rows: a line of its input is an update."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence

ROWS_OF_UPDATE = 4
_END_SECONDS = 300  # for its good-bye to the shards, on a busy machine


class Increments:
    """A program that adds ones, a line of stdin each, to rows from `first_row` on."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], address: str,
                 first_row: int = 0, timeout_seconds: float = 300,
                 tls: Sequence[str] = ()) -> None:
        """
        environment: beside that of this process.
        tls: paths of an authority's certificate, of the own one, and of its key.
        """
        self._process = subprocess.Popen(
            [*command, address, str(first_row), str(timeout_seconds), *tls], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **environment})
        assert self._process.stdin is not None and self._process.stdout is not None
        self.asked, self.said = self._process.stdin, self._process.stdout
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)

    def ask(self) -> str:
        """One more; what it says of it, "" when it has ended."""
        try:
            self.asked.write("\n")
            self.asked.flush()
        except BrokenPipeError:
            return ""
        return self.said.readline()

    def end(self) -> str:
        """Ends it well; else what was wrong."""
        with self._process:
            try:
                self.asked.close()
                self._process.wait(timeout=_END_SECONDS)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                pass
            self._process.kill()
        self._reader.join()
        code = self._process.returncode
        return f"it ended with {code}: {''.join(self._errors)[-2000:]}" if code else ""

    def kill(self) -> None:
        """A thread that waits for its answer is told that it has ended."""
        self._process.kill()
        self._process.wait()
