"""The installed C++ client: a program that knows only the package trains on a cluster."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from typing import Any

import failures_test
import processes
import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "package"
SHARDS = 2
# Of one compiler run on a busy machine.
BUILD_SECONDS = 400


class PackageTest(failures_test.FailureTest):
    def run_tool(self, *command: Any) -> Any:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS,
                              stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def install(self) -> Any:
        prefix = self.directory / "prefix"
        self.run_tool("cmake", "--install", processes.bin_dir().parent, "--component", "client",
                      "--prefix", prefix)
        return prefix

    def test_a_program_outside_the_tree_trains(self) -> None:
        prefix = self.install()
        build = self.directory / "build"
        self.run_tool("cmake", "-G", "Ninja", "-S", PROGRAM, "-B", build,
                      f"-DCMAKE_PREFIX_PATH={prefix}")
        self.run_tool("cmake", "--build", build)
        coordinator = self.start_coordinator(shards=SHARDS)
        for number in range(SHARDS):
            self.start_shard(coordinator, "--shard-id", number)
        said = self.run_tool(build / "one_step", coordinator.address)
        assert re.search(r"loss \d+\.\d+, then \d+\.\d+; best label 17; 2 shards", said)

    def test_what_its_headers_pull_in(self) -> None:
        internal = self.install() / "include/dslide/internal"
        pulled, left = set(), ["client/cpp/cluster_client.h"]
        while left:
            header = left.pop()
            if header in pulled:
                continue
            pulled.add(header)
            text = (internal / header).read_text(encoding="utf-8")
            assert not re.search(r"rocksdb|omp\.h|core/engine/", text)
            left += [name for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE)
                     if re.match(r"(client|core|services)/", name)]
        assert len(pulled) <= 21, sorted(pulled)

    @pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
    def test_pkg_config(self) -> None:
        prefix = self.install()
        (folder,) = prefix.glob("lib*/**/pkgconfig")
        flags = self.run_tool("env", f"PKG_CONFIG_PATH={folder}", "pkg-config", "--cflags",
                              "--libs", f"--define-variable=prefix={prefix}", "dslide-client")
        assert "-ldslide_client" in flags
        assert "-lgrpc++" in flags
