"""`dslide doctor` on a cluster of processes and on their directories: healthy, and then not.

usage: doctor_test.py --bin-dir DIR [unittest arguments]
"""

import failures_test
import processes
from failures_test import DATA_LOSS, FAILURE, OK, UNREACHABLE, USAGE

SHARDS = 2


class DoctorTest(failures_test.FailureTest):
    def doctor(self, *arguments, code):
        finished = self.start("dslide", "doctor", "-o", "json", "--timeout",
                              f"{failures_test.TIMEOUT}s", *arguments).finish()
        self.assert_ended(finished, code)
        return finished.json()

    def worst(self, result):
        """What is said about the gravest findings, each with its remedy."""
        self.assertTrue(result["findings"])
        for finding in result["findings"]:
            self.assertEqual(set(finding), {"severity", "where", "what", "remedy"})
            if finding["severity"] in ("warning", "error"):
                self.assertTrue(finding["remedy"], finding)
        return " ".join(f"{finding['where']}: {finding['what']}" for finding in result["findings"]
                        if finding["severity"] == result["worst"])

    def test_a_cluster(self):
        coordinator = self.start_coordinator("--data-dir", self.directory / "coordinator",
                                             "--checkpoint-interval", "off", shards=SHARDS)
        shards = [self.start_shard(coordinator, "--shard-id", number, "--data-dir",
                                   self.directory / f"shard-{number}")
                  for number in range(SHARDS)]
        ask = ("--coordinator", coordinator.address, "--admin",
               ",".join(process.admin for process in (coordinator, *shards)))
        self.assertEqual(self.doctor(*ask, code=OK)["worst"], "ok")
        # To the end of its job: one that nobody trains any more is worth a warning.
        trained = self.run_dslide("train", "--data", self.data, "--epochs", 1,
                                  "--validation-fraction", 0, "--cluster", coordinator.address)
        self.assert_ended(trained, OK)
        result = self.doctor(*ask, code=FAILURE)
        self.assertEqual(result["worst"], "warning")
        self.assertIn("no whole cluster checkpoint", self.worst(result))
        taken = self.run_dslide("checkpoint", "create", "--cluster", coordinator.address)
        self.assert_ended(taken, OK)
        self.assertEqual(self.doctor(*ask, code=OK)["worst"], "ok")
        # A shard that runs keeps its directory.
        used = self.doctor("--data-dir", self.directory / "shard-0", code=OK)
        self.assertIn("a shard uses this directory", self.worst(used))
        shards[1].process.kill()
        result = self.doctor(*ask, code=UNREACHABLE)
        self.assertIn("shard 1 at", self.worst(result))
        # Its directory lies still, and is what a crash in this mode leaves.
        left = self.doctor("--data-dir", self.directory / "shard-1", code=OK)
        self.assertIn("parts of cluster checkpoints", str(left))
        largest = max((self.directory / "shard-1" / "cluster_checkpoints").rglob("*.sst"),
                      key=lambda path: path.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[len(content) // 2] ^= 1
        largest.write_bytes(content)
        damaged = self.doctor("--data-dir", self.directory / "shard-1", code=DATA_LOSS)
        self.assertIn(largest.name, self.worst(damaged))

    def test_nobody_answers(self):
        address = f"127.0.0.1:{processes.free_port()}"
        result = self.doctor("--cluster", address, code=UNREACHABLE)
        self.assertIn(address, self.worst(result))

    def test_a_model_directory(self):
        directory = self.directory / "model"
        trained = self.run_dslide("train", "--data", self.data, "--steps", 20, "--model-dir",
                                  directory)
        self.assert_ended(trained, OK)
        # No cluster checkpoint was taken in so short a time.
        whole = self.doctor("--data-dir", directory, code=OK)
        self.assertEqual(whole["worst"], "note")
        self.assertIn("no cluster checkpoint", self.worst(whole))
        features = directory / "features.tsv"
        text = features.read_bytes()
        features.write_bytes(bytes([text[0] ^ 1]) + text[1:])
        damaged = self.doctor("--data-dir", directory, code=DATA_LOSS)
        self.assertIn("features.tsv does not have its checksum", self.worst(damaged))

    def test_other_directories(self):
        refused = self.start("dslide", "doctor", "--data-dir", self.directory).finish()
        self.assert_ended(refused, USAGE, "holds nothing of a shard")


if __name__ == "__main__":
    processes.main()
