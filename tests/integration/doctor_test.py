"""`dslide doctor` on a cluster of processes and on their directories: healthy, and then not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import failures_test
from failures_test import DATA_LOSS, FAILURE, OK, UNREACHABLE
from processes import assert_ended

SHARDS = 2


class DoctorTest(failures_test.FailureTest):
    def doctor(self, *arguments: object, code: int) -> Any:
        finished = self.start("dslide", "doctor", "-o", "json", "--timeout",
                              f"{failures_test.TIMEOUT}s", *arguments).finish()
        assert_ended(finished, code)
        return finished.json()

    def worst(self, result: Mapping[str, Any]) -> str:
        """What is said about the gravest findings, each with its remedy."""
        assert result["findings"]
        for finding in result["findings"]:
            assert set(finding) == {"severity", "where", "what", "remedy"}
            if finding["severity"] in ("warning", "error"):
                assert finding["remedy"], finding
        return " ".join(f"{finding['where']}: {finding['what']}" for finding in result["findings"]
                        if finding["severity"] == result["worst"])

    def test_a_cluster(self) -> None:
        coordinator = self.start_coordinator("--data-dir", self.directory / "coordinator",
                                             "--checkpoint-interval", "off", shards=SHARDS)
        shards = [self.start_shard(coordinator, "--shard-id", number, "--data-dir",
                                   self.directory / f"shard-{number}")
                  for number in range(SHARDS)]
        ask = ("--coordinator", coordinator.address, "--admin",
               ",".join(process.admin for process in (coordinator, *shards)))
        assert self.doctor(*ask, code=OK)["worst"] == "ok"
        # To the end of its job: one that nobody trains any more is worth a warning.
        trained = self.run_dslide("train", "--data", self.data, "--epochs", 1,
                                  "--validation-fraction", 0, "--cluster", coordinator.address)
        assert_ended(trained, OK)
        result = self.doctor(*ask, code=FAILURE)
        assert result["worst"] == "warning"
        assert "no whole cluster checkpoint" in self.worst(result)
        taken = self.run_dslide("checkpoint", "create", "--cluster", coordinator.address)
        assert_ended(taken, OK)
        assert self.doctor(*ask, code=OK)["worst"] == "ok"
        # A shard that runs keeps its directory.
        used = self.doctor("--data-dir", self.directory / "shard-0", code=OK)
        assert "a shard uses this directory" in self.worst(used)
        shards[1].process.kill()
        result = self.doctor(*ask, code=UNREACHABLE)
        assert "shard 1 at" in self.worst(result)
        # Its directory lies still, and is what a crash in this mode leaves.
        left = self.doctor("--data-dir", self.directory / "shard-1", code=OK)
        assert "parts of cluster checkpoints" in str(left)
        largest = max((self.directory / "shard-1" / "images").rglob("*.sst"),
                      key=lambda path: path.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[len(content) // 2] ^= 1
        largest.write_bytes(content)
        damaged = self.doctor("--data-dir", self.directory / "shard-1", code=DATA_LOSS)
        assert largest.name in self.worst(damaged)
