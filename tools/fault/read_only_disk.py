"""A file system on a loop device that turns read-only under open files, as disks that fail do."""

from __future__ import annotations

import contextlib
import errno
import pathlib
import shutil
import subprocess
from typing import Any

from small_disk import CannotMount

_NEEDED = ("mkfs.ext4", "e2fsck", "losetup", "blockdev", "mount", "umount")


def _run(*command: object, codes: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    if done.returncode not in codes:
        raise OSError(f"{' '.join(map(str, command))} ended with {done.returncode}: "
                      f"{(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


class ReadOnlyDisk(contextlib.AbstractContextManager["ReadOnlyDisk"]):
    """An ext4 without a journal, of `megabytes`, at a new directory `path`; the image is beside it.

    It is mounted with errors=remount-ro: break_down() tells the kernel that it has an error in
    it. From then on every write, sync, rename and new file fails with EROFS, also of files that are
    open. heal() makes it writable again: by a remount where the kernel allows that, else (from
    Linux 6.13 or so on) it is repaired and mounted anew on another loop device, at the same path.
    Files that were open then stay read-only for ever.

    Why no journal: a kernel that confirms a sync and loses what was synced would be taken for a
    server that does so. Of a program that only appends and syncs while the disk breaks down, Linux
    6.18 lost confirmed bytes in 3 of 30 trials with a journal (it is aborted), in 0 of 150 without.
    """

    def __init__(self, path: pathlib.Path, megabytes: int) -> None:
        missing = [name for name in _NEEDED if shutil.which(name) is None]
        if missing:
            raise CannotMount(f"a disk that turns read-only needs {', '.join(missing)}")
        self.path = path
        self._image = path.with_name(path.name + ".img")
        self._devices: list[str] = []
        path.mkdir(parents=True)
        try:
            with open(self._image, "wb") as image:
                image.truncate(megabytes << 20)
            _run("mkfs.ext4", "-q", "-F", "-m", 0, "-O", "^has_journal", self._image)
            self._mount()
            if not self._trigger.exists():
                raise OSError(f"this kernel has no {self._trigger}")
        except OSError as error:
            self.__exit__()
            raise CannotMount(f"no ext4 image can be mounted and broken here: {error}") from error

    def __exit__(self, *_: object) -> None:
        # Lazily: files on it may still be open. A device goes with the last of them.
        subprocess.run(["umount", "-l", self.path], check=False, capture_output=True)
        for device in self._devices:
            subprocess.run(["losetup", "-d", device], check=False, capture_output=True)

    def _mount(self) -> None:
        device = _run("losetup", "-f", "--show", self._image)
        self._devices.append(device)
        _run("mount", "-t", "ext4", "-o", "errors=remount-ro", device, self.path)

    @property
    def _trigger(self) -> Any:
        name = pathlib.Path(self._devices[-1]).name
        return pathlib.Path("/sys/fs/ext4") / name / "trigger_fs_error"

    def writable(self) -> bool:
        """Whether a file can be made on it now."""
        probe = self.path / "probe"
        try:
            probe.write_bytes(b"x")
            probe.unlink()
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            return False
        return True

    def break_down(self) -> None:
        self._trigger.write_text("1", encoding="ascii")
        if self.writable():
            raise OSError(f"{self.path} is still writable after an error")

    def heal(self) -> None:
        device = self._devices[-1]
        # With the device: else mount(8) repeats options that the kernel shows and does not take.
        subprocess.run(["mount", "-o", "remount,rw", device, self.path], check=False,
                       capture_output=True)
        if self.writable():
            return
        _run("umount", "-l", self.path)
        # What the broken one has in memory must not be written over the repaired one later.
        _run("blockdev", "--flushbufs", device)
        _run("e2fsck", "-f", "-y", self._image, codes=(0, 1))
        self._mount()
        if not self.writable():
            raise OSError(f"{self.path} cannot be made writable again")
