"""A small cluster at work: a coordinator, two shards that log, a trainer; each with its admin page."""

import observability_paths  # noqa: F401  (finds the modules below)
import metrics_text
import processes

SHARDS = 2
# Small steps and many of them; held-out points, so that checkpoints are written; a learning rate
# under which nothing is refused.
SETTINGS = ["--dim", 32, "--batch-size", 64, "--max-active", 200, "--epochs", 100000,
            "--patience", 100000, "--learning-rate", 0.002, "--in-flight", 2]


class SampleCluster:
    """`test` is a processes.ProcessTest, which owns the processes and the directory."""

    def __init__(self, test):
        self._test = test
        directory = test.directory
        self.coordinator = test.start_coordinator(
            "--data-dir", directory / "coordinator", shards=SHARDS)
        self.shards = [
            test.start_shard(self.coordinator, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                             "--shard-id", shard, "--threads", 1, "--durability", "log-periodic",
                             "--data-dir", directory / f"shard-{shard}",
                             "--log-image-interval", "4MiB")
            for shard in range(SHARDS)]
        self._start_trainer()

    def _start_trainer(self):
        data = self._test.directory / "train.txt"
        made = self._test.run_dslide("data", "gen", "--output", data, "--points", 3000,
                                     "--features", 1000, "--labels", 2000, "--seed", 5)
        self._test.assert_ended(made, 0)
        self.trainer = self._test.start(
            "dslide", "train", "--data", data, "--cluster", self.coordinator.address,
            "--job", "sample", "--threads", 1, "--admin", "127.0.0.1:0", *SETTINGS)
        self.trainer_admin = self.trainer.wait_for_stderr(
            r"Metrics: http://(\S+)/metrics").group(1)

    def admins(self):
        """{program: [address of an admin page]}"""
        return {"dslide-coordinator": [self.coordinator.admin],
                "dslide-shard": [shard.admin for shard in self.shards],
                "dslide-trainer": [self.trainer_admin]}

    def pages(self):
        """{program: {name: Family}}, of the first process of each."""
        return {program: metrics_text.parse(processes.fetch(addresses[0]))
                for program, addresses in self.admins().items()}

    def wait_until_busy(self):
        """Until a checkpoint was written: then every metric has shown itself."""
        def seen():
            pages = self.pages()
            shard = pages["dslide-shard"]
            return ("dslide_shard_checkpoint_timestamp_seconds" in shard
                    and shard["dslide_shard_image_seconds"].series > 0
                    and "dslide_trainer_round_trip_seconds" in pages["dslide-trainer"])

        processes.wait_until(seen, lambda: "a step and a checkpoint", alive=[self.trainer])

    def stop(self):
        self._test.assert_ended(self.trainer.stop(), 130)
        for server in [*self.shards, self.coordinator]:
            self._test.assert_ended(server.process.stop(), 0)
