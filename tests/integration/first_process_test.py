"""A program that is the first process of a container, where signals do nothing by themselves."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess

import pytest
from processes import PATIENCE_SECONDS, bin_dir

INTERRUPTED = 130


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a namespace of processes")
def test_it_ends_when_it_is_told_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_SECONDS)
        container = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", bin_dir() / "dslide", "--insecure",
             "--timeout=1h", "status", "--cluster", f"127.0.0.1:{silent.getsockname()[1]}"])
        try:
            silent.accept()  # it waits for an answer
            children = pathlib.Path(f"/proc/{container.pid}/task/{container.pid}/children")
            [first] = children.read_text(encoding="ascii").split()
            os.kill(int(first), signal.SIGTERM)
            assert container.wait(PATIENCE_SECONDS) == INTERRUPTED
        finally:
            container.kill()
            container.wait()
