"""Runs the program of a language that adds ones to rows: a line of its input is an update, or says
how many operations of a step stream it is to do.
"""

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

    def ask(self, line: str = "", answers: int = 1) -> list[str]:
        """One more; so many lines that it says of it, "" for each when it has ended.

        line: "" for an update of rows, "step 2" for two operations of a step stream at once.
        """
        try:
            self.asked.write(f"{line}\n")
            self.asked.flush()
        except BrokenPipeError:
            return [""] * answers
        return [self.said.readline() for _ in range(answers)]

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
