"""A local cluster ends with the program that started it, whatever happens to that."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

import dslide

SCRIPT = """
import dslide, signal, sys, threading, time
# Ignored where the tests run in the background of a shell.
signal.signal(signal.SIGINT, signal.default_int_handler)
made = []
def start():
    made.append(dslide.local(shards=2, threads=2))
# A thread that has ended does not take the cluster with it.
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(0.5)
print(made[0].address, len(made[0].cluster_map().shards), flush=True)
time.sleep(600)
"""


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), 1):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ends_with_the_program(bin_dir: pathlib.Path, how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
    ) as program:
        assert program.stdout is not None
        address, shards = program.stdout.readline().split()
        assert shards == "2"
        assert _listens(address)
        program.send_signal(how)
    deadline = time.monotonic() + 300
    while _listens(address):
        assert time.monotonic() < deadline, f"{address} still answers"
        time.sleep(0.05)


def test_keeps_its_rows_in_a_directory(bin_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    spec = {
        "name": "kept",
        "tables": [{"name": "input", "role": "embedding", "rows": 50, "dim": 4}],
    }
    for life in range(2):
        with dslide.local(shards=1, threads=1, data_dir=tmp_path / "rows") as cluster:
            if life == 0:
                cluster.create_model(spec).scatter("input", [3], [[1, 2, 3, 4]], mode="assign")
            assert cluster.model("kept").gather("input", [3]).tolist() == [[1, 2, 3, 4]]


def test_says_what_is_missing(bin_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(dslide.NotFoundError, match="no program '/nowhere/dslide'.*DSLIDE_BINARY"):
        dslide.local(binary="/nowhere/dslide")
    with pytest.raises(dslide.InvalidArgumentError, match="shards is 0"):
        dslide.local(shards=0)
    broken = tmp_path / "dslide"
    broken.write_text("#!/bin/sh\necho no such luck >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(dslide.UnavailableError, match="no such luck"):
        dslide.local(binary=broken)


def test_closing_twice_is_closing_once(bin_dir: pathlib.Path) -> None:
    cluster = dslide.local(shards=1, threads=1)
    cluster.close()
    cluster.close()
    assert not _listens(cluster.address)
    assert os.environ.get("DSLIDE_BINARY")
