"""Ends processes for good, and what they are found by: control groups and network namespaces."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time
from collections.abc import Callable, Iterable

CGROUPS = pathlib.Path("/sys/fs/cgroup")
PATIENCE = 30.0


def kill_all(find: Callable[[], Iterable[int]]) -> None:
    """Until none is found: while some are killed, others begin."""
    deadline = time.monotonic() + PATIENCE
    while pids := list(find()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {pids} do not end")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def _cgroup_folders(name: str) -> list[pathlib.Path]:
    """Those of a control group and of all below it, the deepest first; one for each controller
    where they are not unified."""
    tops = [*CGROUPS.glob(name), *CGROUPS.glob(f"*/{name}")]
    return [folder for top in tops
            for folder in (*sorted((path for path in top.rglob("*") if path.is_dir()),
                                   reverse=True), top)]


def cgroup_processes(name: str) -> set[int]:
    found: set[int] = set()
    for folder in _cgroup_folders(name):
        with contextlib.suppress(FileNotFoundError):
            found.update(map(int, (folder / "cgroup.procs").read_text(encoding="ascii").split()))
    return found


def remove_cgroup(name: str) -> None:
    """One whose processes were killed; the kernel counts them a moment longer."""
    deadline = time.monotonic() + PATIENCE
    while folders := _cgroup_folders(name):
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        if time.monotonic() > deadline:
            raise TimeoutError(f"control groups do not go: {folders}")
        time.sleep(0.05)
