"""The installed C++ client: a program that knows only the package is built, and trains on a cluster.

usage: package_test.py --bin-dir DIR [unittest arguments]
"""

import pathlib
import re
import shutil
import subprocess
import unittest

import failures_test
import processes

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "package"
SHARDS = 2
# Of one compiler run on a busy machine.
BUILD_SECONDS = 400


class PackageTest(failures_test.FailureTest):
    def run_tool(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS,
                              stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def install(self):
        prefix = self.directory / "prefix"
        self.run_tool("cmake", "--install", processes.bin_dir().parent, "--component", "client",
                      "--prefix", prefix)
        return prefix

    def test_a_program_outside_the_tree_trains(self):
        prefix = self.install()
        build = self.directory / "build"
        self.run_tool("cmake", "-S", PROGRAM, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
        self.run_tool("cmake", "--build", build)
        coordinator = self.start_coordinator(shards=SHARDS)
        for number in range(SHARDS):
            self.start_shard(coordinator, "--shard-id", number)
        said = self.run_tool(build / "one_step", coordinator.address)
        self.assertRegex(said, r"loss \d+\.\d+, then \d+\.\d+; best label 17; 2 shards")

    def test_what_its_headers_pull_in(self):
        internal = self.install() / "include/dslide/internal"
        pulled, left = set(), ["client/cpp/cluster_client.h"]
        while left:
            header = left.pop()
            if header in pulled:
                continue
            pulled.add(header)
            text = (internal / header).read_text(encoding="utf-8")
            self.assertNotRegex(text, r"rocksdb|omp\.h|core/engine/")
            left += [name for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE)
                     if re.match(r"(client|core|services)/", name)]
        self.assertLessEqual(len(pulled), 21, sorted(pulled))

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config")
    def test_pkg_config(self):
        prefix = self.install()
        (folder,) = prefix.glob("lib*/**/pkgconfig")
        flags = self.run_tool("env", f"PKG_CONFIG_PATH={folder}", "pkg-config", "--cflags",
                              "--libs", f"--define-variable=prefix={prefix}", "dslide-client")
        self.assertIn("-ldslide_client", flags)
        self.assertIn("-lgrpc++", flags)


if __name__ == "__main__":
    processes.main()
