"""`dslide completion`: what real shells make of its scripts.

bash is everywhere; zsh and fish are asked where they are installed.
"""

from __future__ import annotations

import os
import pathlib
import pty
import select
import shutil
import subprocess
import time

import pytest
from process_case import ProcessCase
from processes import PATIENCE_SECONDS, assert_ended

OK = 0

# The line up to the cursor, and what completes it, among others with False.
CASES: list[tuple[str, set[str], bool]] = [
    ("dslide mo", {"model"}, True),
    ("dslide job ", {"list", "describe", "cancel", "delete"}, True),
    ("dslide job can", {"cancel"}, True),
    ("dslide train --pre", {"--precision"}, True),
    # Those of the commands above as well, past a flag with its value.
    ("dslide train --data x --log-f", {"--log-format"}, True),
    ("dslide train --cluster 127.0.0.1:7000 --log-f", {"--log-format"}, True),
    ("dslide train --output ", {"text", "json"}, True),
    ("dslide train -o j", {"json"}, True),
    ("dslide data gen --output ./tr", {"./train.txt"}, True),
    ("dslide eval --model-dir ./mo", {"./models"}, True),
    ("dslide eval --model-dir ./tr", set(), True),
    ("dslide -q checkpoint ver", {"verify"}, True),
    # A command's name as the value of a flag is not that command.
    ("dslide train --job model --pre", {"--precision"}, True),
    ("dslide predict --", {"--model-dir", "--data", "--output", "--help"}, False),
]


def assert_completed(found: set[str], expected: set[str], all_of_them: bool, line: str) -> None:
    if all_of_them:
        assert found == expected, line
    else:
        assert expected <= found, line


class CompletionTest(ProcessCase):
    def set_up(self) -> None:
        super().set_up()
        for shell in ("bash", "zsh", "fish"):
            finished = self.run_dslide("completion", shell)
            assert_ended(finished, OK)
            self.script(shell).write_text(finished.stdout)
        (self.directory / "train.txt").touch()
        (self.directory / "models").mkdir()

    def script(self, shell: str) -> pathlib.Path:
        return self.directory / f"dslide.{shell}"

    def run(self, shell: str, *arguments: str) -> list[str]:
        """The lines that a shell prints; it may say nothing else."""
        finished = subprocess.run([shell, *arguments], cwd=self.directory, capture_output=True,
                                  text=True, timeout=PATIENCE_SECONDS, check=False)
        assert finished.returncode == 0, finished.stderr
        assert finished.stderr == ""
        return [line.rstrip("/") for line in finished.stdout.splitlines()]

    def type_into(self, command: list[str], setting_up: str, line: str, awaited: str) -> None:
        """Types `line` and a tab into an interactive shell until `awaited` stands there."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.directory)
            os.environ.update(TERM="dumb", PS1="$ ", HOME=str(self.directory))
            os.execvp(command[0], command)
        try:
            os.write(terminal, f"{setting_up}; echo rea''dy\n".encode())
            self.read_until(terminal, "ready")
            os.write(terminal, f"{line}\t".encode())
            self.read_until(terminal, awaited)
        finally:
            os.close(terminal)
            os.kill(child, 9)
            os.waitpid(child, 0)

    @staticmethod
    def read_until(terminal: int, awaited: str) -> None:
        seen = b""
        end = time.monotonic() + PATIENCE_SECONDS
        while awaited.encode() not in seen:
            left = max(end - time.monotonic(), 0)
            assert select.select([terminal], [], [], left)[0], f"no {awaited} in {seen!r}"
            seen += os.read(terminal, 4096)

    def test_bash_completes_commands_flags_and_values(self) -> None:
        driver = ('source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); _dslide; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        for line, expected, all_of_them in CASES:
            # As readline cuts them.
            words = line.replace("127.0.0.1:7000", "127.0.0.1 : 7000").split(" ")
            found = self.run("bash", "-c", driver, "bash", str(self.script("bash")), *words)
            assert_completed(set(found) - {""}, expected, all_of_them, line)
        found = self.run("bash", "-c", driver, "bash", str(self.script("bash")),
                         "dslide", "train", "--output", "=", "j")
        assert found == ["json"]
        self.type_into(["bash", "--norc", "-i"], f"source {self.script('bash')}", "dslide mo",
                       "dslide model ")
        self.type_into(["bash", "--norc", "-i"], f"source {self.script('bash')}",
                       "dslide train --output=j", "--output=json ")

    def test_zsh_completes_at_its_prompt(self) -> None:
        if shutil.which("zsh") is None:
            pytest.skip("no zsh: apt-get install zsh")
        setting_up = f"autoload -Uz compinit; compinit -u -D; source {self.script('zsh')}"
        for line, awaited in (("dslide mo", "dslide model "),
                              ("dslide job can", "dslide job cancel "),
                              ("dslide train --prec", "--precision "),
                              ("dslide train --data x --log-f", "--log-format "),
                              ("dslide train -o j", "-o json "),
                              ("dslide train --output=j", "--output=json "),
                              ("dslide data gen --output ./tr", "--output ./train.txt "),
                              ("dslide eval --model-dir ./mo", "--model-dir ./models/")):
            self.type_into(["zsh", "-f", "-i"], setting_up, line, awaited)

    def test_fish_completes_commands_flags_and_values(self) -> None:
        if shutil.which("fish") is None:
            pytest.skip("no fish: apt-get install fish")
        for line, expected, all_of_them in CASES:
            found = self.run("fish", "--no-config", "-c",
                             f"source {self.script('fish')}; complete -C '{line}'")
            assert_completed({entry.split("\t")[0].rstrip("/") for entry in found}, expected,
                             all_of_them, line)
