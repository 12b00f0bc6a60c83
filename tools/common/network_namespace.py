"""A network of its own for a test: nobody else's bytes are in its counters.

    with NetworkNamespace() as network:
        before = network.loopback_bytes()

Inside the block, this process and those that it starts see one loopback interface and nothing
else. Needs CAP_SYS_ADMIN; without it, or without kernel support, entering raises OSError. Only for
processes of one thread.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pathlib
import re
import socket
import struct
from typing import Self

_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_IFREQ = "16sH22x"  # name, flags; 40 bytes
_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def _raise_interface(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack(_IFREQ, name.encode(), 0)
        _, flags = struct.unpack(_IFREQ, fcntl.ioctl(control, _SIOCGIFFLAGS, request))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack(_IFREQ, name.encode(), flags | _IFF_UP))


class NetworkNamespace:
    def __enter__(self) -> Self:
        self._outer = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_LIBC.unshare(_CLONE_NEWNET), "unshare(CLONE_NEWNET)")
        except OSError:
            os.close(self._outer)
            raise
        try:
            _raise_interface("lo")
        except OSError:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        try:
            _check(_LIBC.setns(self._outer, _CLONE_NEWNET), "setns")
        finally:
            os.close(self._outer)

    def loopback_bytes(self) -> int:
        """What went over loopback: IP packets, each counted once, where it was received."""
        table = pathlib.Path("/proc/self/net/dev").read_text(encoding="ascii")
        found = re.search(r"^ *lo: *(\d+)", table, re.MULTILINE)
        assert found is not None, table
        return int(found.group(1))
